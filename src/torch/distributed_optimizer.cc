#include <fmt/format.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>

#include "sullae/compression.h"
#include "sullae/torch.h"
#include "torch/bucket_plan.h"
#include "torch/gradient_bucket.h"
#include "torch/tensor_type.h"

namespace sullae {
namespace {

// Called by autograd after a gradient was added to a parameter's .grad().
class ReadyHook final : public torch::autograd::FunctionPostHook {
 public:
  explicit ReadyHook(std::function<void()> call) : call_(std::move(call)) {}
  torch::autograd::variable_list operator()(const torch::autograd::variable_list& outputs,
                                            const torch::autograd::variable_list&) override {
    call_();
    return outputs;
  }

 private:
  std::function<void()> call_;
};

}  // namespace

class DistributedOptimizer::Impl {
 public:
  Impl(torch::optim::Optimizer& optimizer,
       const torch::OrderedDict<std::string, torch::Tensor>& parameters,
       DistributedOptimizerOptions options, World& world)
      : optimizer_(optimizer), options_(options), world_(world), number_(world.next_number()) {
    if (options.backward_passes_per_step < 1) {
      throw InputError("DistributedOptimizer: backward_passes_per_step must be at least 1");
    }
    if (options.op != ReduceOp::average && options.op != ReduceOp::sum &&
        options.op != ReduceOp::adasum) {
      throw InputError(fmt::format(
          "DistributedOptimizer: op is {}, expected average, sum or adasum", name(options.op)));
    }
    if (options.op == ReduceOp::adasum && !options.compression.empty())
      throw InputError("DistributedOptimizer: adasum does not go with compression");
    make_compression(options.compression);  // throws where there is none of that name
    for (const auto& item : parameters) {
      if (!item.value().requires_grad()) continue;
      data_type(item.value().scalar_type(), fmt::format("parameter '{}'", item.key()));
      parameters_.push_back({.name = item.key(), .tensor = item.value()});
    }
    if (world.size() > 1) check_same_parameters(parameters_, options_, world);
    states_.resize(parameters_.size());
    seen_.kinds.resize(parameters_.size(), FirstStep::none);
  }

  // Hooks on this object through a weak pointer, so that a backward after its end does nothing.
  static void add_hooks(const std::shared_ptr<Impl>& impl) {
    if (impl->world_.size() == 1) return;
    for (std::size_t i = 0; i < impl->parameters_.size(); ++i) {
      auto accumulator = torch::autograd::impl::grad_accumulator(impl->parameters_[i].tensor);
      accumulator->add_post_hook(std::make_unique<ReadyHook>([weak = std::weak_ptr<Impl>(impl), i] {
        if (const auto locked = weak.lock()) locked->on_gradient(i);
      }));
      // The parameter itself refers to its accumulator but weakly.
      impl->accumulators_.push_back(std::move(accumulator));
    }
  }

  void synchronize() {
    if (world_.size() == 1 || synchronized_) return;
    const torch::NoGradGuard guard;
    if (backward_start_) world_.mark("BACKWARD", "from the first gradient on", *backward_start_);
    if (buckets_.empty()) make_plan();
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      // What backward did not reach, or reached fewer times than planned.
      if (!states_[i].taken) take(i);
    }
    start_in_order();
    const auto waiting = std::chrono::steady_clock::now();
    for (const auto& bucket : buckets_) bucket->finish();
    world_.mark("WAIT", "for gradients", waiting);
    backward_start_.reset();
    for (ParameterState& state : states_) {
      state.passes = 0;
      state.taken = false;
    }
    next_start_ = 0;
    choose_path();
    synchronized_ = true;
  }

  void step() {
    synchronize();
    optimizer_.step();
    synchronized_ = false;
  }

  // The others see this rank's zeros, and flags that say that it only follows. When nobody steps any
  // more, all are here.
  int join() {
    if (world_.size() == 1) return 0;
    stepping_ = false;
    std::int64_t followed = 0;
    for (;; ++followed) {
      zero_grad();
      synchronize();
      if (!anyone_stepped()) break;
      optimizer_.step();
    }
    stepping_ = true;
    zero_grad();
    // The last to join has followed the fewest steps; of several, the highest rank is named.
    std::int64_t last = (followed + 1) * world_.size() - 1 - world_.rank();
    world_.allreduce(&last, &last, 1, DataType::int64, ReduceOp::min);
    return world_.size() - 1 - static_cast<int>(last % world_.size());
  }

  void zero_grad() {
    for (auto& group : optimizer_.param_groups()) {
      for (auto& parameter : group.params()) parameter.mutable_grad() = torch::Tensor();
    }
    synchronized_ = false;
  }

 private:
  struct ParameterState {
    int passes = 0;
    bool taken = false;  // by its bucket, in this step
    std::size_t bucket = 0;
    std::size_t place = 0;  // among the bucket's members
  };

  void on_gradient(std::size_t index) {
    ParameterState& state = states_[index];
    synchronized_ = false;
    if (!backward_start_) backward_start_ = std::chrono::steady_clock::now();
    if (buckets_.empty()) {
      if (++state.passes == 1) seen_.ready_order.push_back(static_cast<std::int64_t>(index));
      return;
    }
    if (state.taken) {
      throw Error(fmt::format(
          "parameter '{}' got a gradient after its allreduce had started: backward ran more than "
          "backward_passes_per_step ({}) times before step()",
          parameters_[index].name, options_.backward_passes_per_step));
    }
    if (++state.passes < options_.backward_passes_per_step) return;
    const torch::NoGradGuard guard;
    take(index);
    if (!options_.overlap) return;
    if (!negotiated_) {
      start_in_order();
    } else if (GradientBucket& bucket = *buckets_[state.bucket];
               bucket.full() && bucket.is_plain()) {
      bucket.start_negotiated(stepping_);
    }
  }

  void take(std::size_t index) {
    ParameterState& state = states_[index];
    buckets_[state.bucket]->take(state.place);
    state.taken = true;
  }

  // The first step has run backward without overlap; now all ranks agree on the plan.
  void make_plan() {
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const torch::Tensor& gradient = parameters_[i].tensor.grad();
      if (gradient.defined())
        seen_.kinds[i] = is_row_sparse(gradient) ? FirstStep::sparse : FirstStep::dense;
    }
    const FirstStep agreed = agree(seen_, world_);
    for (std::size_t i = 0; i < parameters_.size(); ++i)
      parameters_[i].sparse =
          agreed.kinds[i] == FirstStep::sparse && options_.op != ReduceOp::adasum;
    const std::vector<std::size_t> order(agreed.ready_order.begin(), agreed.ready_order.end());
    auto plans = plan_buckets(parameters_, order, options_.bucket_bytes);
    const std::uint64_t plan_hash = hash_of(plans);
    for (std::size_t b = 0; b < plans.size(); ++b) {
      for (std::size_t place = 0; place < plans[b].parameters.size(); ++place) {
        ParameterState& state = states_[plans[b].parameters[place]];
        state.bucket = b;
        state.place = place;
      }
      PlannedOptions label{.name = bucket_name(b, plans[b].parameters), .plan = plan_hash};
      buckets_.push_back(std::make_unique<GradientBucket>(std::move(plans[b]), parameters_,
                                                          options_, std::move(label), world_));
    }
  }

  std::string bucket_name(std::size_t index, const std::vector<std::size_t>& members) const {
    std::string text = number_ == 0 ? "" : fmt::format("optimizer {} ", number_);
    text += fmt::format("bucket {}", index);
    if (!members.empty()) text += ": " + parameters_[members.front()].name;
    if (members.size() > 1) text += " … " + parameters_[members.back()].name;
    return text;
  }

  // In the plan's order on every rank, whatever order this rank's gradients came in. On the
  // negotiated path this is the end of a step: what could not start by itself does here.
  void start_in_order() {
    for (; next_start_ < buckets_.size() && buckets_[next_start_]->full(); ++next_start_) {
      GradientBucket& bucket = *buckets_[next_start_];
      if (bucket.started()) continue;
      if (negotiated_ && bucket.is_plain()) {
        bucket.start_negotiated(stepping_);
      } else {
        bucket.start_planned(stepping_);
      }
    }
  }

  // The planned path starts buckets in one order, so one gradient that a rank lacks holds back all
  // behind it until that rank's step(). Where steps differ in which gradients there are, buckets are
  // negotiated instead, in whatever order they become full, until steps are alike again. Every rank
  // sees the same flags and so chooses the same.
  void choose_path() {
    std::vector<Presence> now;
    for (const auto& bucket : buckets_) {
      if (bucket->sparse()) continue;
      for (std::size_t place = 0; place < bucket->members().size(); ++place)
        now.push_back(bucket->presence(place));
    }
    const bool alike =
        now == presence_ && std::ranges::find(now, Presence::on_some_ranks) == now.end();
    const bool first = presence_.empty();
    presence_ = std::move(now);
    if (first || !anyone_stepped()) return;
    alike_steps_ = alike ? alike_steps_ + 1 : 0;
    negotiated_ = !alike || (negotiated_ && alike_steps_ < kAlikeSteps);
  }

  bool anyone_stepped() const {
    return std::ranges::any_of(
        buckets_, [](const auto& bucket) { return !bucket->sparse() && bucket->anyone_stepped(); });
  }

  // After so many steps alike the planned path is taken again.
  static constexpr int kAlikeSteps = 10;

  torch::optim::Optimizer& optimizer_;
  DistributedOptimizerOptions options_;
  World& world_;
  std::uint64_t number_;  // tells several optimizers of one world apart
  std::vector<PlannedParameter> parameters_;
  std::vector<std::shared_ptr<torch::autograd::Node>> accumulators_;
  std::vector<ParameterState> states_;
  FirstStep seen_;
  // In the order in which they are started; made by the first step.
  std::vector<std::unique_ptr<GradientBucket>> buckets_;
  std::size_t next_start_ = 0;
  bool synchronized_ = false;
  bool stepping_ = true;  // this rank has not joined
  bool negotiated_ = false;
  int alike_steps_ = 0;
  std::vector<Presence> presence_;  // of the last step's gradients
  std::optional<std::chrono::steady_clock::time_point> backward_start_;
};

DistributedOptimizer::DistributedOptimizer(
    torch::optim::Optimizer& optimizer,
    const torch::OrderedDict<std::string, torch::Tensor>& parameters,
    DistributedOptimizerOptions options, World& world)
    : impl_(std::make_shared<Impl>(optimizer, parameters, options, world)) {
  Impl::add_hooks(impl_);
}
DistributedOptimizer::~DistributedOptimizer() = default;

void DistributedOptimizer::synchronize() { impl_->synchronize(); }
void DistributedOptimizer::step() { impl_->step(); }
int DistributedOptimizer::join() { return impl_->join(); }
void DistributedOptimizer::zero_grad() { impl_->zero_grad(); }

}  // namespace sullae
