#include "train/update/server_rule.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace sullae::train {

void require_of_servers(bool holds, const std::string& what) {
  if (!holds) throw InputError("parameter servers (sullae run --ps): " + what);
}

void Objections::raise(const std::string& where) const {
  require_of_servers(problems_.empty(), fmt::format("{}{}", where, fmt::join(problems_, "; ")));
}

void require_server_optimizer(const TrainOptions& options) {
  require_of_servers(
      options.optimizer == "sgd" || options.optimizer == "adam" || options.optimizer == "adamw",
      "have the optimizers sgd, adam and adamw");
}

ps::RuleOptions server_rule(const torch::optim::Optimizer& optimizer) {
  const auto& options = optimizer.param_groups().front().options();
  if (const auto* sgd = dynamic_cast<const torch::optim::SGDOptions*>(&options)) return *sgd;
  if (const auto* adam = dynamic_cast<const torch::optim::AdamOptions*>(&options)) return *adam;
  return dynamic_cast<const torch::optim::AdamWOptions&>(options);
}

std::string describe(const ps::Staleness& seen) {
  return fmt::format(
      "staleness: rank 0 was {:.1f} steps ahead of the slowest ({} at most); its gradients met "
      "{:.1f} updates of others ({} at most)",
      seen.mean_lead, seen.most_lead, seen.mean_updates, seen.most_updates);
}

}  // namespace sullae::train
