#include "train/fine_tune.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <optional>

#include "train/evaluation.h"
#include "train/loop.h"
#include "train/replay.h"

namespace sullae::train {
namespace {

// Steps over all samples of an epoch, which draws its old ones anew.
class ReplayPlan final : public Plan {
 public:
  ReplayPlan(const Refinement& refinement, std::vector<std::size_t> changed,
             std::vector<std::size_t> earlier, const FineTuneOptions& options,
             const TrainOptions& training, const World& world, Position begun)
      : refinement_(refinement),
        changed_(std::move(changed)),
        earlier_(std::move(earlier)),
        seed_(options.seed) {
    const auto replay = static_cast<std::size_t>(
        std::llround(options.replay * static_cast<double>(changed_.size())));
    // What was corrected before is replayed too, and first, since it is little.
    earlier_replay_ = std::min(earlier_.size(), replay / 2);
    old_replay_ = replay - earlier_replay_;
    steps_.emplace(samples_of(1).size(), training, world.rank(), world.size(), begun);
  }

  std::size_t replayed() const { return samples_of(1).size() - changed_.size(); }
  std::size_t size() const override { return steps_->size(); }
  std::int64_t steps() const override { return steps_->steps(); }
  std::size_t samples_in(std::int64_t step) const override { return steps_->samples_in(step); }
  std::size_t parts_in(std::int64_t step) const override { return steps_->parts_in(step); }
  std::size_t most_parts_in(std::int64_t step) const override {
    return steps_->most_parts_in(step);
  }
  BatchPlan of_epoch(std::size_t epoch, std::int64_t first) const override {
    const auto samples = samples_of(epoch);
    BatchPlan plan = steps_->of_epoch(epoch, first);
    for (auto& batch : plan) {
      for (auto& sample : batch) sample = samples[sample];
    }
    return plan;
  }

 private:
  // As many in every epoch.
  std::vector<std::size_t> samples_of(std::size_t epoch) const {
    const std::uint64_t seed = seed_ * 1000003 + epoch;
    auto samples = changed_;
    for (const auto& drawn : {draw_balanced({earlier_}, earlier_replay_, seed),
                              draw_balanced(refinement_.old_by_class, old_replay_, seed)})
      samples.insert(samples.end(), drawn.begin(), drawn.end());
    return samples;
  }

  const Refinement& refinement_;
  std::vector<std::size_t> changed_;
  std::vector<std::size_t> earlier_;
  std::uint64_t seed_;
  std::size_t earlier_replay_ = 0;
  std::size_t old_replay_ = 0;
  std::optional<StepPlan> steps_;
};

class StepCount final : public Observer {
 public:
  using Progress = std::function<void(std::int64_t, std::int64_t)>;
  explicit StepCount(const Progress& progress) : progress_(progress) {}
  void stepped(const Moment& moment) override {
    progress_(moment.total_steps, moment.steps_per_epoch * moment.epochs);
  }

 private:
  const Progress& progress_;
};

class FineTuning {
 public:
  FineTuning(Refinement& refinement, std::size_t first_changed, const FineTuneOptions& options,
             const World& world)
      : refinement_(refinement),
        task_(*refinement.task),
        options_(options),
        world_(world),
        objective_(task_.objective(/*label_smoothing=*/0)),
        earlier_(range(refinement.first_added, first_of(refinement, first_changed))),
        changed_(range(first_of(refinement, first_changed), task_.size(Split::train))),
        test_(draw(refinement.old_test, options.test_samples, options.seed)) {
    result_.changed.samples = changed_.size();
    result_.earlier.samples = earlier_.size();
    result_.test.samples = test_.size();
  }

  FineTuneResult run(const StepCount::Progress& progress) {
    const auto model = task_.model();
    measure(*model, &Measured::before);
    train(*model, progress);
    measure(*model, &Measured::after);
    return result_;
  }

 private:
  // Of an added sample, among those for training.
  static std::size_t first_of(const Refinement& refinement, std::size_t added) {
    const auto& samples = refinement.samples_of_added;
    if (samples.empty()) return refinement.first_added + added;
    return std::accumulate(samples.begin(), samples.begin() + static_cast<std::ptrdiff_t>(added),
                           refinement.first_added);
  }

  void train(torch::nn::Module& model, const StepCount::Progress& progress) {
    TrainOptions training;
    training.lr = options_.lr;
    training.lr_schedule = "linear";
    training.epochs = options_.epochs;
    training.seed = options_.seed;
    // At least a sample a rank.
    training.batch_size = std::max(options_.batch_size, world_.size());
    StepCount count(progress);
    const Report report =
        Loop({.model = model,
              .objective = *objective_,
              .data = task_,
              .plan =
                  [&](const World& world, const TrainOptions& scaled, Position begun) {
                    auto plan = std::make_unique<ReplayPlan>(refinement_, changed_, earlier_,
                                                             options_, scaled, world, begun);
                    result_.replayed = plan->replayed();
                    return plan;
                  },
              .name = task_.description().recipe,
              .monitors = {},
              .observers = {&count},
              .describe = {},
              .tests = false},
             training)
            .run(world_);
    result_.steps = report.steps;
    model.eval();
  }

  void measure(torch::nn::Module& model, Accuracy Measured::*when) {
    const auto on = [&](const std::vector<std::size_t>& samples) -> Accuracy {
      const auto measured = evaluate({model, *objective_, task_}, Split::test, samples, 0, world_);
      return {.loss = measured.loss,
              .accuracy = measured.metrics.at("accuracy"),
              .counted = measured.counts.at("accuracy")};
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
  std::unique_ptr<Objective> objective_;
  std::vector<std::size_t> earlier_;
  std::vector<std::size_t> changed_;
  std::vector<std::size_t> test_;
  FineTuneResult result_;
};

}  // namespace

FineTuneResult fine_tune(Refinement& refinement, std::size_t first_changed,
                         const FineTuneOptions& options, const World& world,
                         const std::function<void(std::int64_t, std::int64_t)>& progress) {
  return FineTuning(refinement, first_changed, options, world).run(progress);
}

}  // namespace sullae::train
