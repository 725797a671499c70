#include <fmt/format.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <chrono>
#include <functional>
#include <optional>
#include <thread>

#include "sullae/communicator.h"
#include "sullae/compression.h"
#include "sullae/torch.h"
#include "torch/bucket_plan.h"
#include "torch/sparse_rows.h"
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
      : optimizer_(optimizer), options_(options), world_(world) {
    if (options.backward_passes_per_step < 1) {
      throw InputError("DistributedOptimizer: backward_passes_per_step must be at least 1");
    }
    if (options.op != ReduceOp::average && options.op != ReduceOp::sum) {
      throw InputError(
          fmt::format("DistributedOptimizer: op is {}, expected average or sum", name(options.op)));
    }
    make_compression(options.compression);  // throws where there is none of that name
    for (const auto& item : parameters) {
      if (!item.value().requires_grad()) continue;
      data_type(item.value().scalar_type(), fmt::format("parameter '{}'", item.key()));
      parameters_.push_back({.name = item.key(), .tensor = item.value()});
    }
    if (world.size() > 1) check_same_parameters(parameters_, world);
    states_.resize(parameters_.size());
    seen_.kinds.resize(parameters_.size(), FirstStep::none);
  }

  ~Impl() {
    for (Bucket& bucket : buckets_) {
      // A bucket may be left in flight by a step that failed: its memory must outlive the
      // operation.
      while (bucket.launched && !bucket.handle.done()) std::this_thread::yield();
    }
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
    if (!planned_) make_plan();
    for (Bucket& bucket : buckets_) {
      // What backward did not reach, or reached fewer times than planned.
      for (const std::size_t i : bucket.plan.parameters) {
        if (!states_[i].ready) fill(i);
      }
    }
    launch_ready();
    const auto waiting = std::chrono::steady_clock::now();
    for (Bucket& bucket : buckets_) {
      bucket.handle.wait();
      take_result(bucket);
    }
    world_.mark("WAIT", "for gradients", waiting);
    backward_start_.reset();
    for (ParameterState& state : states_) {
      state.passes = 0;
      state.ready = false;
    }
    for (Bucket& bucket : buckets_) {
      bucket.launched = false;
      bucket.pending = bucket.plan.parameters.size();
    }
    next_launch_ = 0;
    synchronized_ = true;
  }

  void step() {
    synchronize();
    optimizer_.step();
    synchronized_ = false;
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
    bool ready = false;  // its gradient is in the bucket
    std::size_t bucket = 0;
    std::size_t place = 0;   // among the bucket's parameters
    torch::Tensor gradient;  // its place in the bucket; undefined for a sparse one
  };
  struct Bucket {
    PlannedBucket plan;
    torch::Tensor
        flat;  // gradients, then a flag for each parameter: 1 where this rank has a gradient
    torch::Tensor flags;
    std::unique_ptr<Compression> compression;
    SparseRows rows;  // of a sparse bucket: this rank's, then everybody's
    bool rows_used = false;
    std::size_t pending = 0;
    bool launched = false;
    Handle handle;
    PlannedOptions label;  // for the timeline
  };

  torch::Tensor& parameter(std::size_t index) { return parameters_[index].tensor; }

  void on_gradient(std::size_t index) {
    ParameterState& state = states_[index];
    synchronized_ = false;
    if (!backward_start_) backward_start_ = std::chrono::steady_clock::now();
    if (!planned_) {
      if (++state.passes == 1) seen_.ready_order.push_back(static_cast<std::int64_t>(index));
      return;
    }
    if (state.ready) {
      throw Error(fmt::format(
          "parameter '{}' got a gradient after its allreduce had started: backward ran more than "
          "backward_passes_per_step ({}) times before step()",
          parameters_[index].name, options_.backward_passes_per_step));
    }
    if (++state.passes < options_.backward_passes_per_step) return;
    const torch::NoGradGuard guard;
    fill(index);
    launch_ready();
  }

  // The first step has run backward without overlap; now all ranks agree on the plan.
  void make_plan() {
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const torch::Tensor& gradient = parameter(i).grad();
      if (gradient.defined())
        seen_.kinds[i] = is_row_sparse(gradient) ? FirstStep::sparse : FirstStep::dense;
    }
    const FirstStep agreed = agree(seen_, world_);
    for (std::size_t i = 0; i < parameters_.size(); ++i)
      parameters_[i].sparse = agreed.kinds[i] == FirstStep::sparse;
    const std::vector<std::size_t> order(agreed.ready_order.begin(), agreed.ready_order.end());
    for (auto& plan : plan_buckets(parameters_, order, options_.bucket_bytes))
      buckets_.push_back({.plan = std::move(plan)});
    for (std::size_t b = 0; b < buckets_.size(); ++b) lay_out(b);
    planned_ = true;
  }

  void lay_out(std::size_t index) {
    Bucket& bucket = buckets_[index];
    bucket.pending = bucket.plan.parameters.size();
    for (std::size_t place = 0; place < bucket.plan.parameters.size(); ++place) {
      ParameterState& state = states_[bucket.plan.parameters[place]];
      state.bucket = index;
      state.place = place;
    }
    const auto& members = bucket.plan.parameters;
    bucket.label.name = fmt::format("bucket {}: {}", index, parameters_[members.front()].name);
    if (members.size() > 1)
      bucket.label.name += fmt::format(" … {}", parameters_[members.back()].name);
    if (bucket.plan.sparse) return;
    bucket.label.bytes = bucket.plan.total_elements() * c10::elementSize(bucket.plan.type);
    if (bucket.plan.type == torch::kFloat32)
      bucket.compression = make_compression(options_.compression);
    const auto width = static_cast<std::size_t>(c10::elementSize(bucket.plan.type));
    const auto memory = world_.allocate_shared(bucket.plan.total_elements() * width);
    // Tensors of their own rather than views of one, which the optimizers' zero_grad() refuses to
    // detach. Each owns the memory, so that a gradient stays valid for whoever still holds it.
    const auto tensor_at = [&](std::size_t element, torch::IntArrayRef shape) {
      return torch::from_blob(
          memory.get() + element * width, shape, [memory](void*) {}, bucket.plan.type);
    };
    bucket.flat = tensor_at(0, {static_cast<std::int64_t>(bucket.plan.total_elements())});
    bucket.flags = tensor_at(bucket.plan.gradient_elements,
                             {static_cast<std::int64_t>(bucket.plan.parameters.size())});
    std::size_t offset = 0;
    for (const std::size_t i : bucket.plan.parameters) {
      states_[i].gradient = tensor_at(offset, parameter(i).sizes());
      offset += aligned_elements(parameter(i));
    }
  }

  // Puts a gradient that is complete into its bucket.
  void fill(std::size_t index) {
    ParameterState& state = states_[index];
    Bucket& bucket = buckets_[state.bucket];
    const torch::Tensor& gradient = parameter(index).grad();
    if (bucket.plan.sparse) {
      bucket.rows_used = gradient.defined();
      bucket.rows = rows_of(index, gradient);
    } else {
      if (!gradient.defined()) {
        state.gradient.zero_();
      } else if (gradient.is_sparse()) {
        state.gradient.copy_(gradient.to_dense());
      } else if (gradient.data_ptr() != state.gradient.data_ptr()) {
        state.gradient.copy_(gradient);
      }
      if (gradient.defined() && parameter(index).device().is_cpu())
        parameter(index).mutable_grad() = state.gradient;
      bucket.flags[static_cast<std::int64_t>(state.place)].fill_(
          parameter(index).grad().defined() ? 1 : 0);
    }
    state.ready = true;
    --bucket.pending;
  }

  SparseRows rows_of(std::size_t index, const torch::Tensor& gradient) {
    if (gradient.defined() && is_row_sparse(gradient)) return SparseRows::from(gradient);
    if (gradient.defined()) return SparseRows::from(gradient.to_dense().to_sparse(1));
    auto shape = parameter(index).sizes().vec();
    shape[0] = 0;
    return {{}, torch::empty(shape, parameter(index).options().requires_grad(false))};
  }

  // In the plan's order on every rank, whatever order this rank's gradients came in.
  void launch_ready() {
    while (next_launch_ < buckets_.size() && buckets_[next_launch_].pending == 0)
      launch(buckets_[next_launch_++]);
  }

  void launch(Bucket& bucket) {
    bucket.launched = true;
    bucket.handle =
        world_.submit([this, &bucket](Communicator& communicator) { reduce(bucket, communicator); },
                      bucket.label);
  }

  // In the background thread; synchronize() waits for it before anything here changes.
  void reduce(Bucket& bucket, Communicator& communicator) const {
    const ReduceOp op = options_.op;
    if (bucket.plan.sparse) {
      const auto all_rows = parameters_[bucket.plan.parameters[0]].tensor.size(0);
      ReducedRows reduced = reduce_rows(communicator, bucket.rows, bucket.rows_used, all_rows, op);
      bucket.rows = std::move(reduced.rows);
      bucket.rows_used = reduced.used;
    } else if (bucket.compression) {
      bucket.compression->allreduce(communicator, bucket.flat.data_ptr<float>(),
                                    bucket.plan.gradient_elements, op);
      communicator.allreduce(bucket.flags.data_ptr(), bucket.flags.data_ptr(),
                             bucket.plan.parameters.size(), DataType::float32, op);
    } else {
      communicator.allreduce(bucket.flat.data_ptr(), bucket.flat.data_ptr(),
                             bucket.plan.total_elements(), data_type(bucket.plan.type, "a bucket"),
                             op);
    }
  }

  void take_result(Bucket& bucket) {
    if (bucket.plan.sparse) {
      torch::Tensor& tensor = parameter(bucket.plan.parameters[0]);
      tensor.mutable_grad() =
          bucket.rows_used ? bucket.rows.to_tensor(tensor.sizes()) : torch::Tensor();
      return;
    }
    const torch::Tensor flags = bucket.flags.to(torch::kFloat64);
    for (std::size_t place = 0; place < bucket.plan.parameters.size(); ++place) {
      const std::size_t i = bucket.plan.parameters[place];
      torch::Tensor& tensor = parameter(i);
      if (flags.data_ptr<double>()[place] == 0) {
        tensor.mutable_grad() = torch::Tensor();
      } else if (tensor.device().is_cpu()) {
        tensor.mutable_grad() = states_[i].gradient;
      } else {
        tensor.mutable_grad() = states_[i].gradient.to(tensor.device());
      }
    }
  }

  torch::optim::Optimizer& optimizer_;
  DistributedOptimizerOptions options_;
  World& world_;
  std::vector<PlannedParameter> parameters_;
  std::vector<std::shared_ptr<torch::autograd::Node>> accumulators_;
  std::vector<ParameterState> states_;
  FirstStep seen_;
  bool planned_ = false;
  std::vector<Bucket>
      buckets_;  // in the order in which they are started; does not change after the first step
  std::size_t next_launch_ = 0;
  bool synchronized_ = false;
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
void DistributedOptimizer::zero_grad() { impl_->zero_grad(); }

}  // namespace sullae
