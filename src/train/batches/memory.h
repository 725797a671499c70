// Samples that are in memory as tensors.
#pragma once

#include "train/task.h"

namespace sullae::train {

struct ImageTensors {
  torch::Tensor images;  ///< [count, channels, rows, columns] uint8
  torch::Tensor labels;  ///< [count] int64
  double mean = 0;       ///< of pixels in [0, 1]
  double deviation = 1;
};

/// `set` must outlive the stream.
std::unique_ptr<BatchStream> stream_from_memory(const ImageTensors& set, BatchPlan plan);

}  // namespace sullae::train
