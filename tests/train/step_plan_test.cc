// Each sample of an epoch is one rank's in one step, whatever the ranks and the batch, and wherever
// they change.
#include "train/step_plan.h"

#include <gtest/gtest.h>

#include "sullae/data/order.h"
#include "support/errors.h"

namespace sullae::train {
namespace {

using sullae::testing::contains;
using sullae::testing::error_of;

TrainOptions with_batch(int batch_size) {
  TrainOptions options;
  options.batch_size = batch_size;
  return options;
}

// The samples of all ranks in steps [from, to).
std::vector<std::size_t> samples_in(std::size_t size, const TrainOptions& options, int ranks,
                                    Position from, std::int64_t to, std::size_t epoch) {
  std::vector<std::vector<std::size_t>> by_step(static_cast<std::size_t>(to));
  for (int rank = 0; rank < ranks; ++rank) {
    const StepPlan plan(size, options, rank, ranks, from);
    const auto batches = plan.of_epoch(epoch, from.step);
    auto batch = batches.begin();
    for (std::int64_t step = from.step; step < to; ++step) {
      auto& samples = by_step[static_cast<std::size_t>(step)];
      for (std::size_t part = 0; part < plan.parts_in(step); ++part, ++batch)
        samples.insert(samples.end(), batch->begin(), batch->end());
    }
  }
  std::vector<std::size_t> all;
  for (const auto& step : by_step) all.insert(all.end(), step.begin(), step.end());
  return all;
}

TEST(StepPlans, DivideEachStepAmongTheRanks) {
  for (const std::size_t size :
       {std::size_t{1}, std::size_t{7}, std::size_t{64}, std::size_t{1009}}) {
    for (const int ranks : {1, 2, 3, 8}) {
      TrainOptions options = with_batch(64);
      options.accumulation_steps = 3;
      const StepPlan plan(size, options, 0, ranks);
      EXPECT_EQ(plan.steps(), static_cast<std::int64_t>((size + 63) / 64));
      EXPECT_EQ(samples_in(size, options, ranks, {}, plan.steps(), 5),
                data::epoch_order(size, {.seed = options.seed}, 5))
          << size << ", " << ranks;
    }
  }
}

TEST(StepPlans, GoOnWithAnotherBatchWhereTheEpochIs) {
  constexpr std::size_t kSize = 1009;
  for (const int batch_size : {1, 30, 100, 97, 2000}) {
    const auto before = with_batch(90);
    auto samples = samples_in(kSize, before, 3, {}, 4, 2);
    ASSERT_EQ(samples.size(), 360U);
    const Position begun{.step = 360 / batch_size, .samples = 360};
    const StepPlan plan(kSize, with_batch(batch_size), 1, 2, begun);
    const auto rest = samples_in(kSize, with_batch(batch_size), 2, begun, plan.steps(), 2);
    samples.insert(samples.end(), rest.begin(), rest.end());
    EXPECT_EQ(samples, data::epoch_order(kSize, {.seed = before.seed}, 2)) << batch_size;
    EXPECT_EQ(plan.samples_in(begun.step),
              std::min<std::size_t>(static_cast<std::size_t>(batch_size), kSize - 360));
  }
  // With nothing left there is no step.
  EXPECT_EQ(StepPlan(kSize, with_batch(90), 0, 2, {.step = 12, .samples = kSize}).steps(), 12);
}

TEST(StepPlans, LeaveOutStepsInWhichARankWouldHaveNothingToNormalise) {
  TrainOptions options = with_batch(8);
  options.sync_batch_norm = true;
  EXPECT_EQ(StepPlan(17, options, 0, 2).steps(), 2);
  EXPECT_EQ(StepPlan(18, options, 0, 2).steps(), 3);
  EXPECT_TRUE(contains(error_of([&] { StepPlan(1, options, 0, 2); }),
                       "--sync-batch-norm: 1 samples, expected at least 2 for 2 ranks"));
}

}  // namespace
}  // namespace sullae::train
