#include "torch/reduction/dense_reduction.h"

#include <utility>

#include "torch/tensor_type.h"

namespace sullae {
namespace {

// A tensor of its own rather than a view, which the optimizers' zero_grad() refuses to detach. It
// owns the memory, so that a gradient stays valid for whoever still holds it.
template <class Owner>
torch::Tensor tensor_at(void* at, torch::IntArrayRef shape, Owner owner,
                        const torch::TensorOptions& options) {
  return torch::from_blob(
      at, shape, [owner = std::move(owner)](void*) {}, options);
}

std::vector<torch::Tensor> places_in(const torch::Tensor& flat, const ReductionRequest& request) {
  std::vector<torch::Tensor> gradients;
  auto* at = static_cast<std::byte*>(flat.data_ptr());
  for (const PlannedParameter& parameter : request.parameters) {
    torch::Tensor gradient = tensor_at(at, parameter.tensor.sizes(), flat, flat.options());
    if (!parameter.strides.empty())
      gradient.unsafeGetTensorImpl()->set_sizes_and_strides(gradient.sizes(), parameter.strides);
    gradients.push_back(std::move(gradient));
    at += aligned_elements(parameter.tensor) * flat.element_size();
  }
  return gradients;
}

}  // namespace

GradientMemory GradientMemory::shared(const ReductionRequest& request) {
  const PlannedBucket& plan = request.plan;
  const auto memory = request.world.allocate_shared(plan.bytes());
  GradientMemory made;
  made.flat = tensor_at(memory.get(), {static_cast<std::int64_t>(plan.total_elements())}, memory,
                        plan.type);
  made.flags = tensor_at(memory.get() + plan.gradient_elements * made.flat.element_size(),
                         {static_cast<std::int64_t>(plan.flags())}, memory, plan.type);
  made.gradients = places_in(made.flat, request);
  return made;
}

GradientMemory GradientMemory::on_device(const ReductionRequest& request) {
  const PlannedBucket& plan = request.plan;
  GradientMemory made;
  made.flat = torch::zeros({static_cast<std::int64_t>(plan.gradient_elements)},
                           torch::TensorOptions(plan.type).device(plan.device));
  const auto memory = request.world.allocate_shared(plan.flags() * sizeof(float));
  made.flags =
      tensor_at(memory.get(), {static_cast<std::int64_t>(plan.flags())}, memory, torch::kFloat32);
  made.gradients = places_in(made.flat, request);
  return made;
}

DenseReduction::DenseReduction(const ReductionRequest& request, GradientMemory memory)
    : plan_(request.plan),
      parameters_(request.parameters),
      op_(request.options.op),
      ranks_(request.world.size()),
      memory_(std::move(memory)) {
  step_flags_.presence.resize(parameters_.size(), Presence::everywhere);
}

DataType DenseReduction::type() const { return data_type(plan_.type, "a bucket"); }

void DenseReduction::take(std::size_t place) {
  const torch::Tensor& gradient = parameter(place).grad();
  const torch::Tensor& own = memory_.gradients[place];
  const bool present = gradient.defined();
  if (!present) {
    own.zero_();
  } else if (gradient.is_sparse()) {
    own.copy_(gradient.to_dense());
  } else if (gradient.data_ptr() != own.data_ptr()) {
    own.copy_(gradient);
  }
  if (present && holds_gradient(place)) parameter(place).mutable_grad() = own;
  memory_.flags[static_cast<std::int64_t>(place)].fill_(present ? 1 : 0);
}

void DenseReduction::start(bool stepping) {
  memory_.flags[static_cast<std::int64_t>(plan_.flags()) - 1].fill_(stepping ? 1 : 0);
}

void DenseReduction::reduce_flags(Communicator& communicator) const {
  communicator.allreduce(memory_.flags.data_ptr(), memory_.flags.data_ptr(), plan_.flags(),
                         data_type(memory_.flags.scalar_type(), "a bucket's flags"),
                         op_ == ReduceOp::adasum ? ReduceOp::sum : op_);
}

void DenseReduction::finish() { step_flags_.read(memory_.flags, op_, ranks_); }

void DenseReduction::give(std::size_t place) {
  torch::Tensor& gradient = parameter(place).mutable_grad();
  if (step_flags_.presence[place] == Presence::nowhere) {
    gradient = torch::Tensor();
  } else if (holds_gradient(place)) {
    gradient = memory_.gradients[place];
  } else {
    gradient = memory_.gradients[place].to(parameter(place).device());
  }
}

bool DenseReduction::holds_gradient(std::size_t place) const {
  return parameter(place).device() == memory_.flat.device();
}

void DenseReduction::clear(std::size_t place) { memory_.gradients[place].zero_(); }

}  // namespace sullae
