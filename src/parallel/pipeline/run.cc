#include "parallel/pipeline/run.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <string>

#include "parallel/pipeline/arrival_gate.h"

namespace sullae::pipeline {
namespace {

// Messages that may come in while this rank computes.
constexpr std::size_t kAhead = 4;

std::string name_of(int stage, const Action& action) {
  return fmt::format("stage {}, micro-batch {}, {}", stage, action.micro_batch,
                     action.work == Work::forward ? "forward" : "backward");
}

std::vector<torch::Tensor> divided(const torch::Tensor& batch, int parts, const char* what) {
  if (!batch.defined() || batch.dim() < 1)
    throw InputError(fmt::format(
        "Pipeline: there are no {}: expected a tensor, divided along dimension 0", what));
  if (batch.size(0) < parts)
    throw InputError(fmt::format("Pipeline: {} {} for {} micro-batches: expected one each, or more",
                                 batch.size(0), what, parts));
  return batch.tensor_split(parts, 0);
}

// Libtorch's own say where in it they were thrown, for lines.
std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace

Run::Run(const Stages& stages, Messages& messages, const World& world, Batch batch)
    : stages_(stages), messages_(messages), world_(world), batch_(std::move(batch)) {}

void Run::divide_batch() {
  if (world_.rank() == 0) inputs_ = divided(batch_.inputs, batch_.micro_batches, "inputs");
  if (!batch_.trains || world_.rank() < world_.size() - 1) return;
  if (!batch_.loss) throw InputError("Pipeline: step() without a loss");
  targets_ = divided(batch_.targets, batch_.micro_batches, "targets");
}

std::int64_t Run::inputs() const {
  return batch_.trains && !failed_ && world_.rank() == 0 ? batch_.inputs.size(0) : 0;
}

std::int64_t Run::targets() const {
  const bool is_last = world_.rank() == world_.size() - 1;
  return batch_.trains && !failed_ && is_last ? batch_.targets.size(0) : 0;
}

void Run::run(const std::vector<Action>& actions) {
  try {
    divide_batch();
  } catch (const InputError&) {  // every rank is told
    error_ = std::current_exception();
    failed_ = true;
  }
  for (std::size_t i = 0; i < actions.size(); ++i) {
    for (std::size_t next = i; next < std::min(i + kAhead, actions.size()); ++next)
      expect(actions[next]);
    if (actions[i].work == Work::forward)
      forward(actions[i]);
    else
      backward(actions[i]);
  }
  messages_.finish();
}

void Run::expect(const Action& action) {
  const int stage = stages_.stage_of(action.chunk);
  const bool comes = action.work == Work::forward ? stage > 0 : stage < stages_.count() - 1;
  if (comes) messages_.expect(action.work, stage, action.micro_batch);
}

template <class Call>
torch::Tensor Run::guarded(const Action& action, const Call& work) {
  if (failed_) return {};
  const auto start = std::chrono::steady_clock::now();
  const std::string name = name_of(stages_.stage_of(action.chunk), action);
  torch::Tensor result;
  try {
    result = work();
  } catch (const PeerError&) {
    throw;
  } catch (const TimeoutError&) {
    throw;
  } catch (const std::exception& error) {  // rethrown when all ranks know
    failed_ = true;
    error_ = std::make_exception_ptr(Error(name + ": " + first_line(error.what())));
  } catch (...) {  // as above
    failed_ = true;
    error_ = std::make_exception_ptr(Error(name + ": threw what is no std::exception"));
  }
  world_.mark("PIPELINE", name, start);
  return result;
}

torch::Tensor Run::input_of(int stage, int micro_batch, const torch::Tensor& arrived,
                            const Kept& kept) const {
  if (stage == 0) return inputs_.at(static_cast<std::size_t>(micro_batch));
  const auto input = arrived.to(stages_.device_of(stage / world_.size()));
  return batch_.trains && input.is_floating_point() ? enter_stage(input, kept.gradient) : input;
}

torch::Tensor Run::loss_of(const torch::Tensor& output, int micro_batch) {
  const torch::Tensor& target = targets_.at(static_cast<std::size_t>(micro_batch));
  const double share =
      static_cast<double>(target.size(0)) / static_cast<double>(batch_.targets.size(0));
  const torch::Tensor loss = batch_.loss(output, target) * share;
  if (loss.numel() != 1)
    throw InputError(
        fmt::format("the loss has shape [{}], expected a number", fmt::join(loss.sizes(), ", ")));
  loss_ += loss.item<double>();
  return batch_.loss_scale == 1 ? loss : loss * batch_.loss_scale;
}

void Run::forward(const Action& action) {
  const int stage = stages_.stage_of(action.chunk);
  const bool is_last = stage == stages_.count() - 1;
  Arrival arrived;
  if (stage > 0) arrived = messages_.take(Work::forward, stage, action.micro_batch);
  failed_ |= arrived.failed;
  Kept kept;
  kept.result = guarded(action, [&] {
    const auto output =
        stages_.run(action.chunk, input_of(stage, action.micro_batch, arrived.tensor, kept));
    if (!is_last) Messages::check_can_be_sent(output);
    return is_last && batch_.trains ? loss_of(output, action.micro_batch) : output;
  });
  if (!is_last) {
    messages_.send({.failed = failed_, .tensor = failed_ ? torch::Tensor() : kept.result},
                   Work::forward, stage + 1, action.micro_batch);
  } else if (!batch_.trains && !failed_) {
    outputs_.push_back(kept.result);
  }
  if (!batch_.trains) return;
  kept_[{action.chunk, action.micro_batch}] = std::move(kept);
  most_alive_ = std::max(most_alive_, static_cast<int>(kept_.size()));
}

void Run::backward(const Action& action) {
  const int stage = stages_.stage_of(action.chunk);
  const bool is_last = stage == stages_.count() - 1;
  Arrival arrived;
  if (!is_last) arrived = messages_.take(Work::backward, stage, action.micro_batch);
  failed_ |= arrived.failed;
  const Kept kept = std::move(kept_.extract({action.chunk, action.micro_batch}).mapped());
  const torch::Tensor gradient = guarded(action, [&] {
    // Where nothing before is trained there is nothing to do.
    if (kept.result.requires_grad() && (is_last || arrived.tensor.defined()))
      kept.result.backward(is_last ? torch::Tensor() : arrived.tensor.to(kept.result.device()));
    return *kept.gradient;
  });
  if (stage > 0)
    messages_.send({.failed = failed_, .tensor = gradient}, Work::backward, stage - 1,
                   action.micro_batch);
}

}  // namespace sullae::pipeline
