// What everything on parameter servers is told.
#pragma once

#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "sullae/error.h"

namespace sullae::ps {

/// The optimizers that servers have.
using RuleOptions = std::variant<torch::optim::SGDOptions, torch::optim::AdagradOptions,
                                 torch::optim::AdamOptions, torch::optim::AdamWOptions>;

struct WorkerOptions {
  /// What Server::endpoint() says of each, in the same order everywhere; by default those of
  /// `sullae run --ps`, or what SULLAE_PS_SERVERS lists, divided by commas.
  std::vector<std::string> servers;
  /// From 0, which gives the first values; by default SULLAE_RANK, or the rank that init() would
  /// take.
  int worker = -1;
  /// So long a worker waits for servers (SULLAE_TIMEOUT).
  std::chrono::milliseconds timeout{0};
  /// Of what is trained, so that servers tell apart what one program has there; by default
  /// "optimizer", or "embedding".
  std::string name = {};
};

/// How old what was trained with was.
struct Staleness {
  /// Steps that this worker was ahead of the slowest: the mean, and the most.
  double mean_lead = 0;
  std::int64_t most_lead = 0;
  /// Updates by other workers between the values that gradients were computed with and their own
  /// update.
  double mean_updates = 0;
  std::int64_t most_updates = 0;
};

}  // namespace sullae::ps
