// Images that worker threads decode and augment.
#pragma once

#include "sullae/data.h"
#include "train/task.h"

namespace sullae::train {

struct ImageStreamOptions {
  data::PrefetchOptions prefetch;
  std::uint64_t seed = 0;
  std::size_t epoch = 0;
  std::int64_t classes = 0;
  /// For copies to a GPU that do not wait.
  bool pinned_memory = false;
};

/// Batches of [batch, 3, size, size] float32. What augments a sample depends on seed, epoch and its
/// number alone, so that any number of ranks and threads gives the same. A damaged record goes to
/// `damage`, and the next whole one takes its place. All must outlive the stream.
std::unique_ptr<BatchStream> stream_images(const data::Dataset& dataset,
                                           const data::ImageTransform& transform,
                                           data::DamageLog& damage, BatchPlan plan,
                                           const ImageStreamOptions& options);

}  // namespace sullae::train
