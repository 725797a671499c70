// How a trained model is trained further, apart from the training: a model's configuration needs no
// libtorch.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sullae::train {

struct FineTuneOptions {
  int epochs = 10;
  /// Samples a step over all ranks together.
  int batch_size = 64;
  /// At the first step; it falls linearly to 0.
  double lr = 1e-3;
  /// Old samples that are trained with each changed one.
  double replay = 4;
  /// Test samples that are judged by, drawn at random; 0 takes all.
  std::size_t test_samples = 10000;
  std::uint64_t seed = 1;
};

}  // namespace sullae::train
