#include "sullae/parallel/pipeline.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <chrono>

#include "parallel/agreement.h"
#include "parallel/pipeline/messages.h"
#include "parallel/pipeline/run.h"
#include "parallel/pipeline/schedule.h"
#include "parallel/pipeline/stages.h"
#include "sullae/adapter.h"

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

Schedule checked_schedule(const World& world, const std::vector<PipelineStage>& stages,
                          const PipelineOptions& options) {
  check_same_on_all(world, "the pipeline", text_of(options, stages));
  const Schedule schedule = pipeline::parse_schedule(options.schedule);
  if (options.micro_batches < 1)
    throw InputError(
        fmt::format("Pipeline: {} micro-batches: expected 1 or more", options.micro_batches));
  if (std::ranges::any_of(stages, is_empty))
    throw InputError("Pipeline: a stage without a module or forward");
  if (stages.empty()) throw InputError("Pipeline: no stages: expected one a rank, or more");
  if (stages.size() > 1 && schedule != Schedule::interleaved)
    throw InputError(
        fmt::format("Pipeline: {} stages a rank with schedule '{}': expected one, or 'interleaved'",
                    stages.size(), options.schedule));
  return schedule;
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

  void synchronize_tied() {
    if (!tied_are_due_) return;
    stages_.sum_tied_gradients();
    tied_are_due_ = false;
  }

  torch::Tensor forward(Batch batch) {
    const torch::NoGradGuard guard;
    const auto actions = pipeline::forward_actions(batch.micro_batches, stages_.chunks());
    const auto outputs = run(std::move(batch), actions).outputs;
    return outputs.empty() ? torch::Tensor() : torch::cat(outputs, 0);
  }

  double clip(double most, const World* tensor) {
    if (stages_.has_tied() && tied_are_due_)
      throw Error("Pipeline: clip_grad_norm() comes after synchronize_tied()");
    return stages_.clip(most, tensor);
  }

  Stages& stages() { return stages_; }
  const Stages& stages() const { return stages_; }
  int micro_batches(int of_this_batch) const {
    if (of_this_batch < 0)
      throw InputError(
          fmt::format("Pipeline: {} micro-batches: expected 1 or more", of_this_batch));
    return of_this_batch == 0 ? options_.micro_batches : of_this_batch;
  }
  int most_alive() const { return most_alive_; }

 private:
  struct Result {
    double loss = 0;
    std::vector<torch::Tensor> outputs;
  };

  Result run(Batch batch, const std::vector<pipeline::Action>& actions) {
    const auto start = std::chrono::steady_clock::now();
    const bool trains = batch.trains;
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
    };
    const Ending mine{.failed = run.has_failed() ? 1.0 : 0.0, .loss = run.loss()};
    std::vector<Ending> all(static_cast<std::size_t>(world_.size()));
    own_world_.allgather(&mine, all.data(), 2, DataType::float64);
    const bool any =
        std::ranges::any_of(all, [](const Ending& ending) { return ending.failed != 0; });
    if (!any) return all.back().loss;
    throw_failure(run.error());
  }

  [[noreturn]] void throw_failure(const std::exception_ptr& own) {
    std::string mine;
    try {
      if (own) std::rethrow_exception(own);
    } catch (const Error& error) {
      mine = error.what();
    }
    const auto all = texts_of_all(own_world_, mine);
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
void Pipeline::synchronize_tied() { impl_->synchronize_tied(); }
torch::Tensor Pipeline::forward(const torch::Tensor& inputs, int micro_batches) {
  return impl_->forward({.inputs = inputs, .micro_batches = impl_->micro_batches(micro_batches)});
}
torch::OrderedDict<std::string, torch::Tensor> Pipeline::parameters() const {
  return impl_->stages().parameters();
}
void Pipeline::train(bool on) {
  for (const PipelineStage& stage : impl_->stages().own()) stage.module->train(on);
}
double Pipeline::clip_grad_norm(double most) { return impl_->clip(most, nullptr); }
double Pipeline::clip_grad_norm(double most, const World& tensor) {
  return impl_->clip(most, &tensor);
}
std::shared_ptr<torch::nn::Module> Pipeline::gather(int root) {
  return impl_->stages().gather(root);
}
void Pipeline::load(const torch::nn::Module& whole) { impl_->stages().load(whole); }
int Pipeline::most_alive() const { return impl_->most_alive(); }
const Stages& Pipeline::stages() const { return impl_->stages(); }

}  // namespace sullae
