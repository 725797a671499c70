// What training on parameter servers asks of options, and has in common.
#pragma once

#include <torch/optim/optimizer.h>

#include <string>

#include "sullae/ps/options.h"
#include "train/options.h"

namespace sullae::train {

/// Throws InputError.
void require_of_servers(bool holds, const std::string& what);
/// Throws InputError for an optimizer that servers do not have.
void require_server_optimizer(const TrainOptions& options);
/// As servers have it, of one that they have.
ps::RuleOptions server_rule(const torch::optim::Optimizer& optimizer);
/// A line for users.
std::string describe(const ps::Staleness& seen);

}  // namespace sullae::train
