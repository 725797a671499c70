#include "sullae/parallel/pipeline.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <chrono>

#include "parallel/gradient_norm.h"
#include "parallel/pipeline/messages.h"
#include "parallel/pipeline/run.h"
#include "parallel/pipeline/schedule.h"
#include "parallel/pipeline/stages.h"
#include "parallel/sharded_within.h"
#include "parallel/tensor/updated_pieces.h"
#include "sullae/adapter.h"
#include "torch/agreement.h"

namespace sullae {
namespace {

using pipeline::Batch;
using pipeline::Messages;
using pipeline::Run;
using pipeline::Schedule;
using pipeline::Stages;

bool is_empty(const PipelineStage& stage) { return stage.module == nullptr || !stage.forward; }

std::string text_of(const PipelineOptions& options, const std::vector<PipelineStage>& stages) {
  std::string text = fmt::format("{} with {} micro-batches and {} stages a rank", options.schedule,
                                 options.micro_batches, stages.size());
  if (std::ranges::any_of(stages, is_empty)) text += ", one without a module or forward";
  for (const auto& group : options.tied) text += fmt::format(", tied ({})", fmt::join(group, ", "));
  return text;
}

void check_micro_batches(int count) {
  if (count < 1 || count > Messages::kMostMicroBatches)
    throw InputError(fmt::format("Pipeline: {} micro-batches: expected 1 to {}", count,
                                 Messages::kMostMicroBatches));
}

Schedule checked_schedule(const World& world, const std::vector<PipelineStage>& stages,
                          const PipelineOptions& options) {
  check_same_on_all(world, "the pipeline", text_of(options, stages));
  const Schedule schedule = pipeline::parse_schedule(options.schedule);
  check_micro_batches(options.micro_batches);
  if (std::ranges::any_of(stages, is_empty))
    throw InputError("Pipeline: a stage without a module or forward");
  if (stages.empty()) throw InputError("Pipeline: no stages: expected one a rank, or more");
  if (stages.size() * static_cast<std::size_t>(world.size()) > Messages::kMostStages)
    throw InputError(
        fmt::format("Pipeline: {} ranks with {} stages: expected at most {} stages in all",
                    world.size(), stages.size(), Messages::kMostStages));
  if (stages.size() > 1 && schedule != Schedule::interleaved)
    throw InputError(
        fmt::format("Pipeline: {} stages a rank with schedule '{}': expected one, or 'interleaved'",
                    stages.size(), options.schedule));
  return schedule;
}

// Why gradients of `tied` cannot be added up piece by piece; empty: they can.
std::string problem_with(const std::set<std::string>& tied, const ParameterStore& store) {
  auto others = tied;
  for (const PlannedParameter& one : store.all()) {
    if (one.alone) others.erase(one.name);
  }
  if (others.empty()) return {};
  return fmt::format(
      "Pipeline: tied parameter '{}' has no bucket of its own in the sharded optimizer: expected "
      "ShardedOptimizerOptions::own_buckets = pipeline.tied_parameters()",
      *others.begin());
}

}  // namespace

class Pipeline::Impl {
 public:
  Impl(std::vector<PipelineStage> stages, const World& world, const PipelineOptions& options)
      : world_(world),
        own_world_(own_world_like(world)),
        options_(options),
        schedule_(checked_schedule(own_world_, stages, options)),
        stages_(std::move(stages), own_world_, options),
        messages_(own_world_) {}

  double step(Batch batch) {
    if (stages_.has_tied() && tied_are_due_)
      throw Error(
          "Pipeline: step() after a step() whose tied gradients were not added up: call "
          "synchronize_tied() before the optimizer's step()");
    stages_.begin_step();
    const auto actions = pipeline::actions_of(schedule_, world_.size(), world_.rank(),
                                              batch.micro_batches, stages_.chunks());
    const double loss = run(std::move(batch), actions).loss;
    tied_are_due_ = true;
    return loss;
  }

  void synchronize_tied(const Stages::Tensors& updated) {
    if (!tied_are_due_) return;
    stages_.sum_tied_gradients(updated);
    tied_are_due_ = false;
  }
  void synchronize_tied(ShardedOptimizer& optimizer) {
    if (!tied_are_due_) return;
    if (stages_.has_tied())
      throw_on_all(own_world_, problem_with(stages_.tied_parameters(), within(optimizer).store));
    optimizer.synchronize();
    synchronize_tied(optimizer.pieces());
  }

  torch::Tensor forward(Batch batch) {
    const torch::NoGradGuard guard;
    const auto actions = pipeline::forward_actions(batch.micro_batches, stages_.chunks());
    const auto outputs = run(std::move(batch), actions).outputs;
    return outputs.empty() ? torch::Tensor() : torch::cat(outputs, 0);
  }

  double clip(double max_norm, const World* tensor) {
    return clip(stages_.parameters(), max_norm, tensor);
  }
  double clip(double max_norm, ShardedOptimizer& optimizer, const World* tensor) {
    optimizer.synchronize();
    const ParameterStore& store = within(optimizer).store;
    return clip(pieces_called_as(stages_.parameters(), store), max_norm, tensor, &store.world());
  }

  Stages& stages() { return stages_; }
  const Stages& stages() const { return stages_; }
  int micro_batches(int of_this_batch) const {
    const int count = of_this_batch == 0 ? options_.micro_batches : of_this_batch;
    check_micro_batches(count);
    return count;
  }
  int most_alive() const { return most_alive_; }

 private:
  // `data`: the ranks that divide gradients among themselves; null where each has all of its
  // stages'.
  double clip(const Stages::Tensors& updated, double max_norm, const World* tensor,
              const World* data = nullptr) {
    if (stages_.has_tied() && tied_are_due_)
      throw Error("Pipeline: clip_grad_norm() comes after synchronize_tied()");
    if (tensor == nullptr && stages_.have_parts())
      throw InputError(
          "Pipeline: clip_grad_norm() of stages with tensor parallel layers: expected their world, "
          "too");
    double squares = stages_.squares_of(updated, tensor == nullptr || tensor->rank() == 0);
    for (const World* const others : {tensor, data}) {
      if (others != nullptr) others->allreduce(&squares, &squares, 1, DataType::float64);
    }
    return clip_to_norm(updated, squares, max_norm, own_world_);
  }

  struct Result {
    double loss = 0;
    std::vector<torch::Tensor> outputs;
  };

  Result run(Batch batch, const std::vector<pipeline::Action>& actions) {
    const auto start = std::chrono::steady_clock::now();
    const bool trains = batch.trains;
    messages_.begin(batch.micro_batches);
    Run run(stages_, messages_, world_, std::move(batch));
    try {
      run.run(actions);
    } catch (const std::exception& error) {  // rethrown: the others would wait for this rank
      AdapterView(own_world_).fail(error.what());
      throw;
    }
    if (trains) most_alive_ = run.most_alive();
    const double loss = meet(run);
    world_.mark("PIPELINE_STEP", options_.schedule, start);
    return {.loss = loss, .outputs = run.take_outputs()};
  }

  // All ranks learn the loss, or who failed.
  double meet(const Run& run) {
    struct Ending {
      double failed = 0;
      double loss = 0;
      double inputs = 0;   // of the first rank
      double targets = 0;  // of the last
    };
    const Ending mine{.failed = run.has_failed() ? 1.0 : 0.0,
                      .loss = run.loss(),
                      .inputs = static_cast<double>(run.inputs()),
                      .targets = static_cast<double>(run.targets())};
    std::vector<Ending> all(static_cast<std::size_t>(world_.size()));
    own_world_.allgather(&mine, all.data(), 4, DataType::float64);
    const bool any =
        std::ranges::any_of(all, [](const Ending& ending) { return ending.failed != 0; });
    if (any) throw_failure(run.error());
    const auto inputs = static_cast<std::int64_t>(all.front().inputs);
    const auto targets = static_cast<std::int64_t>(all.back().targets);
    // Of a sample there may be several: then parts fit each other where they are equal.
    const bool fits = targets == inputs ||
                      (inputs > 0 && inputs % run.micro_batches() == 0 && targets % inputs == 0);
    if (!fits)
      throw InputError(
          fmt::format("Pipeline: {} inputs on the first rank, and {} targets on the "
                      "last: expected as many",
                      inputs, targets));
    return all.back().loss;
  }

  [[noreturn]] void throw_failure(const std::exception_ptr& own) {
    std::string mine;
    try {
      if (own) std::rethrow_exception(own);
    } catch (const Error& error) {
      mine = error.what();
    }
    const auto all = allgather_texts(own_world_, mine);
    if (own) std::rethrow_exception(own);
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      if (!all[rank].empty())
        throw Error(fmt::format("Pipeline: rank {} failed: {}", rank, all[rank]));
    }
    throw Error("Pipeline: a stage failed");
  }

  World world_;
  World own_world_;
  PipelineOptions options_;
  Schedule schedule_;
  Stages stages_;
  Messages messages_;
  bool tied_are_due_ = false;
  int most_alive_ = 0;
};

Pipeline::Pipeline(std::vector<PipelineStage> stages, const World& world, PipelineOptions options)
    : impl_(std::make_unique<Impl>(std::move(stages), world, options)) {}
Pipeline::~Pipeline() = default;

double Pipeline::step(const torch::Tensor& inputs, const torch::Tensor& targets, const Loss& loss,
                      double loss_scale, int micro_batches) {
  return impl_->step({.inputs = inputs,
                      .targets = targets,
                      .trains = true,
                      .loss = loss,
                      .loss_scale = loss_scale,
                      .micro_batches = impl_->micro_batches(micro_batches)});
}
void Pipeline::synchronize_tied() { impl_->synchronize_tied(parameters()); }
void Pipeline::synchronize_tied(ShardedOptimizer& optimizer) { impl_->synchronize_tied(optimizer); }
std::set<std::string> Pipeline::tied_parameters() const {
  return impl_->stages().tied_parameters();
}
torch::Tensor Pipeline::forward(const torch::Tensor& inputs, int micro_batches) {
  return impl_->forward({.inputs = inputs, .micro_batches = impl_->micro_batches(micro_batches)});
}
torch::OrderedDict<std::string, torch::Tensor> Pipeline::parameters() const {
  return impl_->stages().parameters();
}
void Pipeline::train(bool on) {
  for (const PipelineStage& stage : impl_->stages().own()) stage.module->train(on);
}
double Pipeline::clip_grad_norm(double max_norm) { return impl_->clip(max_norm, nullptr); }
double Pipeline::clip_grad_norm(double max_norm, const World& tensor) {
  return impl_->clip(max_norm, &tensor);
}
double Pipeline::clip_grad_norm(double max_norm, ShardedOptimizer& optimizer) {
  return impl_->clip(max_norm, optimizer, nullptr);
}
double Pipeline::clip_grad_norm(double max_norm, ShardedOptimizer& optimizer, const World& tensor) {
  return impl_->clip(max_norm, optimizer, &tensor);
}
std::shared_ptr<torch::nn::Module> Pipeline::gather(int root) {
  return impl_->stages().gather(root);
}
void Pipeline::load(const torch::nn::Module& whole) { impl_->stages().load(whole); }
int Pipeline::most_alive() const { return impl_->most_alive(); }
const Stages& Pipeline::stages() const { return impl_->stages(); }

}  // namespace sullae
