// Epochs of steps, each with a test at its end: what training a recipe, a model of the user's own,
// and a trained model further have in common.
#pragma once

#include <torch/nn/module.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launch/survivors.h"
#include "sullae/elastic.h"
#include "sullae/sullae.h"
#include "sullae/train/data.h"
#include "sullae/train/objective.h"
#include "sullae/train/observer.h"
#include "sullae/train/units.h"
#include "train/end_request.h"
#include "train/evaluation.h"
#include "train/ranks.h"
#include "train/run_state.h"
#include "train/saver.h"
#include "train/schedule.h"
#include "train/step_plan.h"
#include "train/stepper.h"
#include "train/throughput.h"

namespace sullae::train {

/// All of it must outlive the loop.
struct LoopParts {
  torch::nn::Module& model;
  const Objective& objective;
  Data& data;
  /// Which samples this rank has of a world that divides them, from there on.
  std::function<std::unique_ptr<Plan>(const World&, const TrainOptions&, Position begun)> plan;
  std::string name;
  /// Those that rank 0 has; may be empty.
  std::function<std::vector<std::unique_ptr<Observer>>(int rank)> monitors;
  std::vector<Observer*> observers;
  /// Adds to each checkpoint; may be empty.
  std::function<void(CheckpointMetadata&)> describe;
  /// After each epoch.
  bool tests = true;
};

/// Used by the training thread.
class Loop {
 public:
  /// `options` are checked, and outlive the loop.
  Loop(LoopParts parts, const TrainOptions& options);

  /// Trains. Collective.
  Report run(const World& world);
  /// Trains in one world of an elastic job after the other, the first of which this process joins
  /// here, unless it has. Throws InputError for options that need ranks which stay.
  elastic::Outcome run_elastic();
  const Report& report() const { return report_; }
  /// Tells the observers.
  void note(const std::string& text) const { tell(&Observer::noted, text); }
  /// Whether this is rank 0, in the last world.
  bool is_root() const { return ranks_->all.rank() == 0; }
  /// The loss of the last epoch, on the test set where there is one, is no number: the weights are
  /// of no use. Of all ranks alike.
  bool has_diverged() const;
  /// The weights as they are after it, without the optimizer, in `file`, which is rank 0's, and
  /// empty elsewhere. Collective.
  void save_weights(const std::filesystem::path& file, CheckpointMetadata metadata);

 private:
  void enter(const World& world);
  void make_plan();
  void begin(torch::Device device);
  void train();
  void track(elastic::State& kept);
  void note_change(WorldChange change);
  void train_with_those_left();
  void go_on_with_those_left();
  void meet(const World& world);
  void move_to(std::int64_t step);
  void describe();
  void tell_of_settings() const;
  std::optional<LoadedCheckpoint> resume();
  void go_on_from(RunState state);
  /// Since the training began, in whichever processes.
  double seconds() const;
  void adapt_to_batch_size();
  /// Steps of a training that has had the batches of now from its beginning.
  std::int64_t schedule_step() const {
    return (state_.epoch - 1) * steps_of_whole_epoch_ + state_.step;
  }
  void make_stepper(torch::Device device);
  void put_master_weights_back();
  void take_up(const LoadedCheckpoint& loaded);
  bool in_units() const { return units_of(parts_.model) != nullptr; }
  bool ended() const { return options_.max_steps > 0 && state_.steps >= options_.max_steps; }
  void train_epoch();
  void step_done();
  void leave_in_order(void (elastic::State::*ask)());
  void step(BatchStream& stream, double data_before);
  std::vector<Batch> idle_parts(const std::vector<Batch>& parts);
  void end_where_asked();
  [[noreturn]] void end_for(int signal);
  void end_epoch();
  void save();
  std::string save_checkpoint(bool best);
  void test(std::int64_t epoch);
  bool is_best();
  Moment moment(double loss, double lr) const;
  void finish_report();
  void tell_failure(const std::function<void()>& part) const;

  template <class... Parameters, class... Arguments>
  void tell(void (Observer::*what)(Parameters...), const Arguments&... arguments) const {
    for (const auto& monitor : monitors_) (monitor.get()->*what)(arguments...);
    for (Observer* const observer : parts_.observers) (observer->*what)(arguments...);
  }

  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  double seconds_before_ = 0;  // of the runs that this one goes on from
  LoopParts parts_;
  const TrainOptions& given_;
  TrainOptions options_;  // for the ranks that there are
  std::vector<Metric> metrics_;
  Throughput throughput_;
  RunState state_;
  Report report_;
  std::optional<Stepper> stepper_;
  double own_loss_ = 0;  // of this rank's last step with samples
  enum class Unsaved { nothing, last, best };
  Unsaved unsaved_ = Unsaved::nothing;  // of an epoch that has ended
  std::vector<std::unique_ptr<Observer>> monitors_;
  bool is_first_of_monitors_ = false;     // they know nothing yet
  elastic::State* elastic_ = nullptr;     // of run_elastic()
  std::unique_ptr<Survivors> survivors_;  // of a job that goes on without ranks that end
  std::optional<EndRequest> end_request_;

  // Of the world that it is in.
  std::optional<Ranks> ranks_;
  std::unique_ptr<Plan> plan_;
  Position begun_;  // where it begins
  std::int64_t steps_per_epoch_ = 0;
  std::int64_t steps_of_whole_epoch_ = 0;  // where it began with these batches
  Schedule schedule_;
  std::optional<Saver> saver_;
};

}  // namespace sullae::train
