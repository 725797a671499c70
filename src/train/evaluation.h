// The test of a model.
#pragma once

#include "sullae/sullae.h"
#include "train/task.h"

namespace sullae::train {

struct Evaluation {
  double loss = 0;
  double accuracy = 0;  ///< from 0 to 1
};

/// Over `samples` of a split, each on one rank. Collective: `samples` are the same on every rank.
Evaluation evaluate(Task& task, Split split, const std::vector<std::size_t>& samples,
                    std::size_t epoch, const torch::Device& device, torch::ScalarType input_type,
                    const World& world);

/// Over the whole test set: each rank tests every size()-th sample. Collective.
Evaluation evaluate(Task& task, std::size_t epoch, const torch::Device& device,
                    torch::ScalarType input_type, const World& world);

}  // namespace sullae::train
