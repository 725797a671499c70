// The test of a model.
#pragma once

#include <torch/nn/module.h>

#include <functional>
#include <map>
#include <string>

#include "sullae/sullae.h"
#include "sullae/train/objective.h"

namespace sullae::train {

struct Evaluation {
  double loss = 0;
  std::map<std::string, double> metrics;  ///< of the objective, by name
  std::map<std::string, double> counts;   ///< over how much each is a mean
};

class StagedModel;

/// What of a run is tested, and on what.
struct Tested {
  torch::nn::Module& model;
  const Objective& objective;
  Data& data;
  torch::ScalarType input_type = torch::kFloat32;
  /// Ranks go through the model together, each as often as the others: it is of units.
  bool together = false;
  /// Where the model is in stages; null elsewhere. Ranks of one pipeline then are one of those that
  /// divide the samples.
  StagedModel* staged = nullptr;
  /// Whether the test is to be left, asked before batches that all ranks have, of which it is the
  /// same on all: collective. What comes of it is nothing then. Null where it is not.
  std::function<bool()> is_to_leave = nullptr;
};

/// Over `samples` of a split, each on one rank. Collective: `samples` are the same on every rank.
Evaluation evaluate(const Tested& tested, Split split, const std::vector<std::size_t>& samples,
                    std::size_t epoch, const World& world);

/// Over the whole test set: each rank tests every size()-th sample. Collective.
Evaluation evaluate(const Tested& tested, std::size_t epoch, const World& world);

/// "97.50 %" or "12.35".
std::string format_metric(const Metric& metric, double value);

}  // namespace sullae::train
