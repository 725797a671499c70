// What training on parameter servers asks of options, and has in common.
#pragma once

#include <torch/optim/optimizer.h>

#include <string>
#include <vector>

#include "sullae/ps/options.h"
#include "train/options.h"

namespace sullae::train {

/// What options ask of servers that these do not have, said together.
class Objections {
 public:
  void require(bool holds, const char* what) {
    if (!holds) problems_.emplace_back(what);
  }
  /// Throws InputError, with `where` in front of them, where there are some.
  void raise(const std::string& where = {}) const;

 private:
  std::vector<std::string> problems_;
};

/// Throws InputError.
void require_of_servers(bool holds, const std::string& what);
/// Throws InputError for an optimizer that servers do not have.
void require_server_optimizer(const TrainOptions& options);
/// As servers have it, of one that they have.
ps::RuleOptions server_rule(const torch::optim::Optimizer& optimizer);
/// A line for users.
std::string describe(const ps::Staleness& seen);

}  // namespace sullae::train
