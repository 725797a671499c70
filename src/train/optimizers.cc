#include "train/optimizers.h"

#include <fmt/format.h>

#include <algorithm>

#include "sullae/error.h"
#include "sullae/torch/optimizers.h"
#include "torch/optimizer_state.h"
#include "torch/trained_parameters.h"

namespace sullae::train {
namespace {

using Made = std::unique_ptr<torch::optim::Optimizer>;
using Parameters = std::vector<torch::Tensor>;

torch::optim::SGDOptions sgd_options(const TrainOptions& o) {
  return torch::optim::SGDOptions(o.lr)
      .momentum(o.momentum)
      .nesterov(o.nesterov)
      .weight_decay(o.weight_decay);
}
torch::optim::AdamWOptions adamw_options(const TrainOptions& o) {
  return torch::optim::AdamWOptions(o.lr).betas({o.beta1, o.beta2}).weight_decay(o.weight_decay);
}

struct NamedOptimizer {
  const char* name;
  Made (*make)(Parameters, const TrainOptions&);
};
constexpr NamedOptimizer kOptimizers[] = {
    {"adam",
     [](Parameters p, const TrainOptions& o) -> Made {
       return std::make_unique<Adam>(
           std::move(p),
           torch::optim::AdamOptions(o.lr).betas({o.beta1, o.beta2}).weight_decay(o.weight_decay));
     }},
    {"adamw",
     [](Parameters p, const TrainOptions& o) -> Made {
       return std::make_unique<AdamW>(std::move(p), adamw_options(o));
     }},
    {"sgd",
     [](Parameters p, const TrainOptions& o) -> Made {
       return std::make_unique<SGD>(std::move(p), sgd_options(o));
     }},
    {"lars",
     [](Parameters p, const TrainOptions& o) -> Made {
       return std::make_unique<LARS>(std::move(p), sgd_options(o), o.trust_coefficient);
     }},
    {"lamb", [](Parameters p, const TrainOptions& o) -> Made {
       return std::make_unique<LAMB>(std::move(p), adamw_options(o));
     }}};

}  // namespace

std::vector<std::string> optimizer_names() {
  std::vector<std::string> names;
  for (const NamedOptimizer& optimizer : kOptimizers) names.emplace_back(optimizer.name);
  return names;
}

Made make_optimizer(const TrainOptions& options,
                    const torch::OrderedDict<std::string, torch::Tensor>& parameters) {
  const auto found = std::ranges::find_if(kOptimizers, [&](const NamedOptimizer& optimizer) {
    return options.optimizer == optimizer.name;
  });
  if (found == std::end(kOptimizers)) {
    throw InputError(fmt::format("--optimizer {}: expected one of {}", options.optimizer,
                                 fmt::join(optimizer_names(), ", ")));
  }
  Parameters decayed;
  Parameters others;
  for (const auto& item : each_once(parameters)) {
    const bool decay = options.decay_all || options.weight_decay == 0 || item.value().dim() > 1;
    (decay ? decayed : others).push_back(item.value());
  }
  Made optimizer = found->make(std::move(decayed), options);
  if (!others.empty()) {
    auto group_options = optimizer->param_groups().front().options().clone();
    torch::optim::OptimizerParamGroup group(std::move(others), std::move(group_options));
    optimizer->add_param_group(group);
    auto& own = optimizer->param_groups().back().options();
    if (auto* sgd = dynamic_cast<torch::optim::SGDOptions*>(&own)) sgd->weight_decay(0);
    if (auto* adam = dynamic_cast<torch::optim::AdamOptions*>(&own)) adam->weight_decay(0);
    if (auto* adamw = dynamic_cast<torch::optim::AdamWOptions*>(&own)) adamw->weight_decay(0);
  }
  return optimizer;
}

KeptOptions::KeptOptions(torch::optim::Optimizer& optimizer) : optimizer_(optimizer) {
  for (const auto& group : optimizer.param_groups()) options_.push_back(group.options().clone());
}

KeptOptions::~KeptOptions() {
  for (std::size_t i = 0; i < options_.size(); ++i)
    optimizer_.param_groups()[i].set_options(std::move(options_[i]));
}

void move_optimizer_state(torch::optim::Optimizer& from, torch::optim::Optimizer& to) {
  for (std::size_t group = 0; group < from.param_groups().size(); ++group) {
    const auto& sources = from.param_groups()[group].params();
    const auto& targets = to.param_groups()[group].params();
    for (std::size_t i = 0; i < sources.size(); ++i) {
      const auto found = from.state().find(key_of(from.state(), sources[i]));
      if (found != from.state().end())
        to.state()[key_of(to.state(), targets[i])] = std::move(found->second);
    }
  }
}

}  // namespace sullae::train
