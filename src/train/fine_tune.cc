#include "train/fine_tune.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>

#include "sullae/torch.h"
#include "train/replay.h"
#include "train/schedule.h"
#include "train/stepper.h"

namespace sullae::train {
namespace {

class FineTuning {
 public:
  FineTuning(Refinement& refinement, std::size_t first_changed, const FineTuneOptions& options,
             const World& world)
      : refinement_(refinement),
        task_(*refinement.task),
        options_(options),
        world_(world),
        device_(local_device(world)),
        earlier_(range(refinement.first_added, refinement.first_added + first_changed)),
        changed_(range(refinement.first_added + first_changed, task_.size(Split::train))),
        test_(draw(refinement.old_test, options.test_samples, options.seed)) {
    // A rank's part of a step is a whole number of samples, and at least one.
    const int ranks = world.size();
    batch_ = static_cast<std::size_t>(std::max(options.batch_size / ranks, 1));
    result_.changed.samples = changed_.size();
    result_.earlier.samples = earlier_.size();
    result_.test.samples = test_.size();
    const auto replay = static_cast<std::size_t>(
        std::llround(options.replay * static_cast<double>(changed_.size())));
    // What was corrected before is replayed too, and first, since it is little.
    earlier_replay_ = std::min(earlier_.size(), replay / 2);
    old_replay_ = replay - earlier_replay_;
  }

  FineTuneResult run(const std::function<void(std::int64_t, std::int64_t)>& progress) {
    measure(&Measured::before);
    train(progress);
    measure(&Measured::after);
    return result_;
  }

 private:
  // What is trained in an epoch.
  std::vector<std::size_t> samples_of(int epoch) const {
    const std::uint64_t seed = options_.seed * 1000003 + static_cast<std::uint64_t>(epoch);
    auto samples = changed_;
    for (const auto& drawn : {draw_balanced({earlier_}, earlier_replay_, seed),
                              draw_balanced(refinement_.old_by_class, old_replay_, seed)})
      samples.insert(samples.end(), drawn.begin(), drawn.end());
    return samples;
  }

  void train(const std::function<void(std::int64_t, std::int64_t)>& progress) {
    TrainOptions options;
    options.lr = options_.lr;
    options.lr_schedule = "linear";
    options.epochs = options_.epochs;
    const auto model = task_.model();
    Stepper stepper(*model, options, world_);
    model->train();
    std::optional<Schedule> schedule;
    for (int epoch = 0; epoch < options_.epochs; ++epoch) {
      const auto samples = samples_of(epoch);
      result_.replayed = samples.size() - changed_.size();
      DistributedSampler sampler(samples.size(), {.seed = options_.seed, .block = batch_}, world_);
      sampler.set_epoch(static_cast<std::size_t>(epoch));
      BatchPlan plan;
      for (const std::size_t index : sampler.indices()) {
        if (plan.empty() || plan.back().size() == batch_) plan.emplace_back();
        plan.back().push_back(samples[index]);
      }
      const auto steps_per_epoch = static_cast<std::int64_t>(plan.size());  // in every epoch
      if (!schedule) schedule = make_schedule(options, steps_per_epoch);
      const auto stream =
          task_.batches(Split::train, std::move(plan), static_cast<std::size_t>(epoch));
      while (auto batch = stream->next()) {
        stepper.step({std::move(*batch)}, (*schedule)(result_.steps));
        ++result_.steps;
        progress(result_.steps, steps_per_epoch * options_.epochs);
      }
    }
    model->eval();
  }

  void measure(Evaluation Measured::*when) {
    const auto on = [&](const std::vector<std::size_t>& samples) {
      return evaluate(task_, Split::test, samples, 0, device_, torch::kFloat32, world_);
    };
    const std::size_t first_earlier = refinement_.old_test;
    const std::size_t first_changed = first_earlier + earlier_.size();
    result_.changed.*when = on(range(first_changed, task_.size(Split::test)));
    result_.earlier.*when = on(range(first_earlier, first_changed));
    result_.test.*when = on(test_);
  }

  Refinement& refinement_;
  Task& task_;
  const FineTuneOptions& options_;
  World world_;
  torch::Device device_;
  std::vector<std::size_t> earlier_;
  std::vector<std::size_t> changed_;
  std::vector<std::size_t> test_;
  std::size_t batch_ = 1;
  std::size_t earlier_replay_ = 0;
  std::size_t old_replay_ = 0;
  FineTuneResult result_;
};

}  // namespace

FineTuneResult fine_tune(Refinement& refinement, std::size_t first_changed,
                         const FineTuneOptions& options, const World& world,
                         const std::function<void(std::int64_t, std::int64_t)>& progress) {
  return FineTuning(refinement, first_changed, options, world).run(progress);
}

}  // namespace sullae::train
