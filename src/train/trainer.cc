#include "train/trainer.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numbers>
#include <optional>

#include "sullae/torch.h"
#include "train/checkpoints.h"
#include "train/progress.h"

namespace sullae::train {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::unique_ptr<torch::optim::Optimizer> make_optimizer(const TrainOptions& options,
                                                        std::vector<torch::Tensor> parameters) {
  if (options.optimizer == "adam") {
    return std::make_unique<Adam>(
        std::move(parameters),
        torch::optim::AdamOptions(options.lr).weight_decay(options.weight_decay));
  }
  if (options.optimizer == "sgd") {
    return std::make_unique<torch::optim::SGD>(std::move(parameters),
                                               torch::optim::SGDOptions(options.lr)
                                                   .momentum(options.momentum)
                                                   .weight_decay(options.weight_decay));
  }
  throw InputError(fmt::format("--optimizer {}: expected adam or sgd", options.optimizer));
}

// The factor on the learning rate, `part` of the way through the training.
double schedule(const std::string& name, double part) {
  if (name == "constant") return 1;
  if (name == "linear") return 1 - part;
  if (name == "cosine") return 0.5 * (1 + std::cos(std::numbers::pi * part));
  throw InputError(fmt::format("--lr-schedule {}: expected constant, linear or cosine", name));
}

class Run {
 public:
  Run(const Recipe& recipe, const TrainOptions& options, World& world)
      : options_(options),
        world_(world),
        progress_(world.rank() == 0, options.log_interval),
        task_(make_task(recipe)),
        optimizer_(make_optimizer(options, task_->model().parameters())),
        batch_(static_cast<std::size_t>(options.batch_size / world.size())),
        sampler_(task_->size(Split::train), {.seed = options.seed, .block = batch_}, world) {
    schedule(options.lr_schedule, 0);
    report_.recipe = recipe.name();
    report_.data = task_->data_description();
    report_.world_size = world.size();
    report_.threads = torch::get_num_threads();
    report_.batch_size = options.batch_size;
    for (const auto& parameter : task_->model().parameters())
      report_.parameters += parameter.numel();
    if (!options.checkpoint_dir.empty() && world.rank() == 0) {
      checkpoints_.emplace(options.checkpoint_dir, recipe.name(), options.keep_checkpoints);
    }
    steps_per_epoch_ = static_cast<std::int64_t>((sampler_.indices().size() + batch_ - 1) / batch_);
    // Ranks drop out different cells.
    torch::manual_seed(options.seed * 1000003 + static_cast<std::uint64_t>(world.rank()) + 1);
  }

  Report train() {
    const auto start = Clock::now();
    progress_.line(fmt::format(
        "{}: {}; {:.1f} million parameters; {} rank{} of {} thread{}, {} samples a step",
        report_.recipe, report_.data, static_cast<double>(report_.parameters) / 1e6, world_.size(),
        world_.size() == 1 ? "" : "s", report_.threads, report_.threads == 1 ? "" : "s",
        options_.batch_size));
    const int first_epoch = resume() + 1;
    broadcast_parameters(task_->model(), 0, world_);
    DistributedOptimizer optimizer(
        *optimizer_, task_->model().named_parameters(),
        {.compression = options_.compression, .overlap = options_.overlap}, world_);
    if (first_epoch > options_.epochs) test();
    for (int epoch = first_epoch; epoch <= options_.epochs && !ended(); ++epoch) {
      train_epoch(epoch, optimizer);
      test();
      report_.epochs = epoch;
      progress_.line(
          fmt::format("epoch {}/{}  train loss {:.4f}  test loss {:.4f}  test accuracy {:.2f} %  "
                      "{:.0f} samples/s",
                      epoch, options_.epochs, report_.train_loss, report_.test_loss,
                      100 * report_.test_accuracy, report_.samples_per_second));
      save(epoch);
    }
    report_.seconds = load_seconds_ + seconds_since(start);
    progress_.line(fmt::format("test accuracy {:.2f} %, {:.0f} samples/s, {:.1f} s in all",
                               100 * report_.test_accuracy, report_.samples_per_second,
                               report_.seconds));
    if (!options_.report.empty() && world_.rank() == 0) report_.write(options_.report);
    return report_;
  }

 private:
  std::unique_ptr<Task> make_task(const Recipe& recipe) {
    const auto start = Clock::now();
    // The weights are drawn from the seed; rank 0's are then everybody's.
    torch::manual_seed(options_.seed);
    auto task = recipe.make(options_);
    load_seconds_ = seconds_since(start);
    return task;
  }

  bool ended() const { return options_.max_steps > 0 && report_.steps >= options_.max_steps; }

  // The epoch that the newest checkpoint is of, 0 where training starts anew.
  int resume() {
    if (!options_.resume) return 0;
    std::int64_t epoch = 0;
    if (checkpoints_) {
      if (const auto metadata = checkpoints_->load_newest(task_->model(), *optimizer_)) {
        epoch = static_cast<std::int64_t>(metadata->at("epoch"));
        report_.steps = static_cast<std::int64_t>(metadata->at("steps"));
        report_.train_loss = metadata->at("train_loss");
      }
      progress_.line(epoch > 0 ? fmt::format("resuming after epoch {}", epoch)
                               : fmt::format("no checkpoint in {} yet: starting anew",
                                             options_.checkpoint_dir.string()));
    }
    std::int64_t values[2] = {epoch, report_.steps};
    world_.broadcast(values, 2, DataType::int64, 0);
    report_.epochs = static_cast<int>(values[0]);
    report_.steps = values[1];
    if (values[0] > 0) broadcast_optimizer_state(*optimizer_, 0, world_);
    return static_cast<int>(values[0]);
  }

  void train_epoch(int epoch, DistributedOptimizer& optimizer) {
    task_->model().train();
    sampler_.set_epoch(static_cast<std::size_t>(epoch));
    progress_.start_epoch(epoch, options_.epochs, steps_per_epoch_);
    double loss_sum = 0;
    std::int64_t step = 0;
    while (const auto samples = sampler_.next(batch_)) {
      if (ended()) break;
      set_learning_rate();
      optimizer.zero_grad();
      const BatchResult result = task_->run(Split::train, *samples);
      result.loss.backward();
      if (options_.clip_norm > 0) {
        optimizer.synchronize();
        torch::nn::utils::clip_grad_norm_(task_->model().parameters(), options_.clip_norm);
      }
      optimizer.step();
      const double loss = result.loss.item<double>();
      loss_sum += loss;
      ++step;
      ++report_.steps;
      measure(samples->size());
      progress_.step(step, loss, report_.samples_per_second);
    }
    pause_measuring();
    report_.train_loss =
        average_metrics({{"loss", loss_sum / static_cast<double>(std::max<std::int64_t>(step, 1))}},
                        1, world_)
            .at("loss");
  }

  // The first step makes the plan, and everything is cold: measuring starts after it.
  void measure(std::size_t samples) {
    if (!measuring_) {
      measuring_ = true;
      measure_start_ = Clock::now();
      return;
    }
    measured_samples_ += samples * static_cast<std::size_t>(world_.size());
    const double seconds = measured_seconds_ + seconds_since(measure_start_);
    report_.samples_per_second = static_cast<double>(measured_samples_) / seconds;
  }
  void pause_measuring() {
    if (measuring_) measured_seconds_ += seconds_since(measure_start_);
    measuring_ = false;
  }

  void set_learning_rate() {
    const auto total = static_cast<double>(steps_per_epoch_ * options_.epochs);
    const double lr =
        options_.lr * schedule(options_.lr_schedule, static_cast<double>(report_.steps) / total);
    for (auto& group : optimizer_->param_groups()) group.options().set_lr(lr);
  }

  // Each rank tests every size()-th sample, so that each is tested once.
  void test() {
    const torch::NoGradGuard guard;
    task_->model().eval();
    constexpr std::size_t kTestBatch = 250;
    const std::size_t count = task_->size(Split::test);
    const auto ranks = static_cast<std::size_t>(world_.size());
    std::vector<std::size_t> mine;
    for (auto i = static_cast<std::size_t>(world_.rank()); i < count; i += ranks) mine.push_back(i);
    double sums[2] = {0, 0};  // loss, correct
    for (std::size_t begin = 0; begin < mine.size(); begin += kTestBatch) {
      const auto samples =
          std::span(mine).subspan(begin, std::min(kTestBatch, mine.size() - begin));
      const BatchResult result = task_->run(Split::test, samples);
      sums[0] += result.loss.item<double>() * static_cast<double>(samples.size());
      sums[1] += static_cast<double>(result.correct);
    }
    world_.allreduce(sums, sums, 2, DataType::float64);
    report_.test_loss = sums[0] / static_cast<double>(count);
    report_.test_accuracy = sums[1] / static_cast<double>(count);
  }

  void save(int epoch) {
    if (!checkpoints_) return;
    report_.checkpoint = checkpoints_
                             ->save(epoch, task_->model(), *optimizer_,
                                    {{"steps", static_cast<double>(report_.steps)},
                                     {"train_loss", report_.train_loss}})
                             .string();
  }

  const TrainOptions& options_;
  World& world_;
  Progress progress_;
  double load_seconds_ = 0;
  std::unique_ptr<Task> task_;
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
  std::optional<Checkpoints> checkpoints_;  // on rank 0
  std::size_t batch_;                       // samples of this rank in a step
  DistributedSampler sampler_;
  std::int64_t steps_per_epoch_ = 0;
  Report report_;

  bool measuring_ = false;
  Clock::time_point measure_start_{};
  double measured_seconds_ = 0;
  std::size_t measured_samples_ = 0;
};

}  // namespace

Report train(const Recipe& recipe, const TrainOptions& options, World& world) {
  check_options(options, world.size());
  return Run(recipe, options, world).train();
}

}  // namespace sullae::train
