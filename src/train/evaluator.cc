#include "train/evaluator.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "base/deadline.h"
#include "base/environment.h"
#include "base/log.h"
#include "sullae/torch.h"
#include "train/checkpoints.h"
#include "train/description.h"
#include "train/device.h"
#include "train/evaluation.h"
#include "train/monitor/monitors.h"
#include "train/run_state.h"

namespace sullae::train {
namespace {

constexpr std::chrono::milliseconds kPeriod{500};
constexpr const char* kTimeout = "SULLAE_EVALUATOR_TIMEOUT";

class Evaluator {
 public:
  Evaluator(Task& task, const Recipe& recipe, const RecipeOptions& options, const World& world)
      : task_(task),
        options_(options),
        world_(world),
        name_(recipe.name()),
        model_(task.model()),
        objective_(task.objective(options.label_smoothing)),
        monitors_(make_monitors(options, world.rank())) {
    model_->to(device_of(options, local_device(world)));
    read_seconds(process_environment(), kTimeout, ZeroMeans::error, timeout_);
    report_ = {.recipe = name_,
               .data = task.data_description(),
               .threads = torch::get_num_threads(),
               .batch_size = options.batch_size,
               .metrics = objective_->metrics(),
               .configuration = options.configuration};
    for (const auto& parameter : model_->parameters()) report_.parameters += parameter.numel();
    add_description(own_, task.description());
  }

  Report run() {
    for (const auto& monitor : monitors_) monitor->started(report_);
    while (!test(next())) {
    }
    report_.seconds = seconds();
    for (const auto& monitor : monitors_) monitor->ended(report_);
    return report_;
  }

 private:
  // Waits for a newest one that is not the last.
  std::filesystem::path next() const {
    const Deadline deadline(timeout_, kTimeout);
    const auto start = std::chrono::steady_clock::now();
    bool is_told = false;
    for (;;) {
      if (std::filesystem::is_directory(options_.checkpoint_dir)) {
        const auto files = checkpoints_in(options_.checkpoint_dir, name_);
        if (!files.empty() && files.front() != report_.checkpoint) return files.front();
      }
      if (deadline.passed())
        throw TimeoutError(fmt::format("no new checkpoint of {} came into {} {}", name_,
                                       options_.checkpoint_dir.string(), deadline.describe()));
      constexpr std::chrono::seconds kPatience{10};
      if (!is_told && std::chrono::steady_clock::now() - start > kPatience) {
        is_told = true;
        log::info("waiting for {} checkpoint of {} in {}",
                  report_.checkpoint.empty() ? "a" : "another", name_,
                  options_.checkpoint_dir.string());
      }
      std::this_thread::sleep_for(kPeriod);
    }
  }

  // Whether it was the last one.
  bool test(const std::filesystem::path& file) {
    std::optional<CheckpointMetadata> metadata;
    try {
      check_same_model(read_checkpoint_metadata(file), own_, "--evaluator");
      metadata = load_checkpoint(file, *model_);
    } catch (const CheckpointError&) {
      // Trainers remove the older ones.
      if (!std::filesystem::exists(file)) return false;
      throw;
    }
    const RunState state = run_state_of(*metadata);
    const auto epoch = static_cast<int>(state.step == 0 ? state.epoch - 1 : state.epoch);
    const Evaluation result =
        evaluate({*model_, *objective_, task_}, static_cast<std::size_t>(epoch), world_);
    report_.checkpoint = file.string();
    report_.epochs = epoch;
    report_.steps = state.steps;
    report_.train_loss = state.train_loss;
    report_.test_loss = result.loss;
    report_.test_metrics = result.metrics;
    report_.history.push_back({.epoch = epoch,
                               .train_loss = state.train_loss,
                               .test_loss = result.loss,
                               .test_metrics = result.metrics,
                               .seconds = seconds()});
    const Moment moment{.epoch = epoch,
                        .epochs = options_.epochs,
                        .step = state.step,
                        .total_steps = state.steps,
                        .loss = state.train_loss,
                        .test_loss = result.loss,
                        .test_metrics = result.metrics};
    for (const auto& monitor : monitors_) {
      monitor->noted(fmt::format("{}: after {} steps", file.filename().string(), state.steps));
      monitor->epoch_ended(moment, report_.history.back());
    }
    const bool has_all_steps = options_.max_steps > 0 && state.steps >= options_.max_steps;
    return state.epoch > options_.epochs || has_all_steps;
  }

  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  Task& task_;
  const RecipeOptions& options_;
  World world_;
  std::string name_;
  std::shared_ptr<torch::nn::Module> model_;
  std::unique_ptr<Objective> objective_;
  std::vector<std::unique_ptr<Observer>> monitors_;
  std::chrono::milliseconds timeout_{std::chrono::hours{24}};
  CheckpointMetadata own_;  // what its checkpoints say of the model
  Report report_;
};

}  // namespace

Report evaluate_checkpoints(const Recipe& recipe, const RecipeOptions& options,
                            const World& world) {
  if (options.checkpoint_dir.empty())
    throw InputError("--evaluator: needs --checkpoint-dir, where the checkpoints are");
  if (world.size() != 1)
    throw InputError(fmt::format("--evaluator: {} ranks: expected one process", world.size()));
  RecipeOptions checked = options;
  // Those of who trains.
  checked.mesh.clear();
  checked.stages_per_rank = 1;
  checked.precision = "float32";
  checked.loss_scale = recipe.defaults().loss_scale;
  checked.allreduce_precision = recipe.defaults().allreduce_precision;
  check_options(checked, 1);
  const auto task = make_task(recipe, checked, world);
  if (task->size(Split::test) == 0)
    throw InputError("--evaluator: there are no samples to test on");
  return Evaluator(*task, recipe, checked, world).run();
}

}  // namespace sullae::train
