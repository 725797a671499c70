// Which samples a rank trains on in which step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "sullae/train/data.h"
#include "train/options.h"

namespace sullae::train {

/// In an epoch: steps that are done, and the samples that they had. These are no multiple of the
/// batch where steps before had another one.
struct Position {
  std::int64_t step = 0;
  std::int64_t samples = 0;
};

/// Which samples make the steps of each epoch. Any thread.
class Plan {
 public:
  virtual ~Plan() = default;
  /// Samples of an epoch.
  virtual std::size_t size() const = 0;
  /// In an epoch.
  virtual std::int64_t steps() const = 0;
  /// Of all ranks.
  virtual std::size_t samples_in(std::int64_t step) const = 0;
  /// Into how many parts this rank's samples of a step are divided: as accumulation and replicas
  /// want it, but none is empty.
  virtual std::size_t parts_in(std::int64_t step) const = 0;
  /// The most that any rank has in a step.
  virtual std::size_t most_parts_in(std::int64_t step) const = 0;
  /// This rank's parts of all steps from `first` on, one after the other.
  virtual BatchPlan of_epoch(std::size_t epoch, std::int64_t first) const = 0;
};

/// A step has --batch-size samples of an epoch's order over all ranks, the last one what is left:
/// what one process would train on. Ranks have as even parts of it as can be, and perhaps none.
class StepPlan final : public Plan {
 public:
  /// For `size` samples, of which steps up to `begun` are not this plan's. Throws InputError where
  /// no step has samples enough.
  StepPlan(std::size_t size, const TrainOptions& options, int rank, int ranks, Position begun = {});

  std::size_t size() const override { return size_; }
  std::int64_t steps() const override { return steps_; }
  std::size_t samples_in(std::int64_t step) const override;
  std::size_t parts_in(std::int64_t step) const override;
  std::size_t most_parts_in(std::int64_t step) const override;
  BatchPlan of_epoch(std::size_t epoch, std::int64_t first) const override;

 private:
  // Of all ranks' samples in an epoch's order.
  std::size_t first_of(std::int64_t step) const;
  // Of this rank, among those of all ranks in a step: [first, last).
  std::pair<std::size_t, std::size_t> part_of(std::int64_t step) const;

  std::size_t size_;
  std::size_t batch_;
  std::size_t parts_;  // that a rank's samples are divided into
  std::size_t rank_;
  std::size_t ranks_;
  Position begun_;
  std::uint64_t seed_;
  std::size_t shuffle_buffer_;
  std::int64_t steps_ = 0;
};

}  // namespace sullae::train
