#include "parallel/ps/core_options.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <type_traits>
#include <variant>

#include "base/environment.h"
#include "launch/environment.h"
#include "ps/endpoints.h"

namespace sullae::ps {
namespace {

Rule rule_of_options(const torch::optim::SGDOptions& options, const char*) {
  return {.kind = Rule::Kind::sgd,
          .weight_decay = options.weight_decay(),
          .momentum = options.momentum(),
          .dampening = options.dampening(),
          .nesterov = options.nesterov()};
}

Rule rule_of_options(const torch::optim::AdagradOptions& options, const char*) {
  return {.kind = Rule::Kind::adagrad,
          .weight_decay = options.weight_decay(),
          .eps = options.eps(),
          .learning_rate_decay = options.lr_decay(),
          .initial_accumulator = options.initial_accumulator_value()};
}

template <class Options>
Rule rule_of_options(const Options& options, const char* who) {
  if (options.amsgrad())
    throw InputError(fmt::format("{}: servers have no AMSGrad: expected amsgrad(false)", who));
  const bool decoupled = std::is_same_v<Options, torch::optim::AdamWOptions>;
  return {.kind = decoupled ? Rule::Kind::adamw : Rule::Kind::adam,
          .weight_decay = options.weight_decay(),
          .beta1 = std::get<0>(options.betas()),
          .beta2 = std::get<1>(options.betas()),
          .eps = options.eps()};
}

// Beside servers that `sullae run` has not started, SULLAE_RANK may be all that is said.
int worker_of(const Environment& environment) {
  if (!environment("SULLAE_RANK")) return detect_world(environment).rank;
  std::size_t rank = 0;
  read_count(environment, "SULLAE_RANK", rank);
  return static_cast<int>(rank);
}

}  // namespace

Rule core_rule(const RuleOptions& options, const char* who) {
  return std::visit([&](const auto& one) { return rule_of_options(one, who); }, options);
}

double rate_of(const RuleOptions& options) {
  return std::visit([](const auto& one) { return one.lr(); }, options);
}

ClientOptions client_options(const WorkerOptions& given, const char* name, const char* who) {
  const Environment environment = process_environment();
  ClientOptions options{.servers = given.servers,
                        .worker = given.worker,
                        .name = given.name.empty() ? name : given.name};
  read_text(environment, "SULLAE_JOB_SECRET", options.secret);
  if (options.servers.empty()) options.servers = find_endpoints(environment);
  if (options.servers.empty())
    throw InputError(fmt::format(
        "{}: no parameter servers: expected `sullae run --ps N`, SULLAE_PS_SERVERS or servers in "
        "WorkerOptions",
        who));
  if (options.worker < 0) options.worker = worker_of(environment);
  if (given.timeout.count() > 0)
    options.timeout = given.timeout;
  else
    read_seconds(environment, "SULLAE_TIMEOUT", ZeroMeans::error, options.timeout);
  return options;
}

Staleness staleness_of(const Delays& delays) {
  if (delays.items == 0) return {};
  const auto items = static_cast<double>(delays.items);
  return {.mean_lead = static_cast<double>(delays.leads) / items,
          .most_lead = delays.most_lead,
          .mean_updates = static_cast<double>(delays.updates) / items,
          .most_updates = delays.most_updates};
}

}  // namespace sullae::ps
