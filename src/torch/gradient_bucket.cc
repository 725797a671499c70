#include "torch/gradient_bucket.h"

#include <fmt/format.h>

#include <thread>

#include "torch/tensor_type.h"

namespace sullae {
GradientBucket::GradientBucket(PlannedBucket plan, const std::vector<PlannedParameter>& parameters,
                               const DistributedOptimizerOptions& options, PlannedOptions label,
                               const World& world)
    : plan_(std::move(plan)),
      parameters_(parameters),
      op_(options.op),
      world_(world),
      label_(std::move(label)),
      missing_(plan_.parameters.size()),
      presence_(plan_.parameters.size(), Presence::everywhere) {
  if (plan_.sparse) return;
  if (plan_.type == torch::kFloat32) compression_ = make_compression(options.compression);
  if (plan_.device.is_cuda() && !compression_ && op_ != ReduceOp::adasum)
    device_ = world_.device_communicator(plan_.device.index());
  label_.bytes = plan_.total_elements() * static_cast<std::size_t>(c10::elementSize(plan_.type));
  lay_out();
}

void GradientBucket::lay_out() {
  const auto width = static_cast<std::size_t>(c10::elementSize(plan_.type));
  // A tensor of its own rather than a view, which the optimizers' zero_grad() refuses to detach. It
  // owns the memory, so that a gradient stays valid for whoever still holds it.
  const auto tensor_at = [](void* at, torch::IntArrayRef shape, auto owner,
                            const torch::TensorOptions& options) {
    return torch::from_blob(
        at, shape, [owner = std::move(owner)](void*) {}, options);
  };
  const auto flags = static_cast<std::int64_t>(plan_.flags());
  if (device_ != nullptr) {
    flat_ = torch::zeros({static_cast<std::int64_t>(plan_.gradient_elements)},
                         torch::TensorOptions(plan_.type).device(plan_.device));
    const auto memory = world_.allocate_shared(plan_.flags() * sizeof(float));
    flags_ = tensor_at(memory.get(), {flags}, memory, torch::kFloat32);
  } else {
    const auto memory = world_.allocate_shared(label_.bytes);
    flat_ = tensor_at(memory.get(), {static_cast<std::int64_t>(plan_.total_elements())}, memory,
                      plan_.type);
    flags_ = tensor_at(memory.get() + plan_.gradient_elements * width, {flags}, memory, plan_.type);
  }
  auto* at = static_cast<std::byte*>(flat_.data_ptr());
  for (std::size_t place = 0; place < plan_.parameters.size(); ++place) {
    gradients_.push_back(tensor_at(at, parameter(place).sizes(), flat_, flat_.options()));
    at += aligned_elements(parameter(place)) * width;
  }
}

GradientBucket::~GradientBucket() {
  while (started_ && !handle_.done()) std::this_thread::yield();
}

void GradientBucket::take(std::size_t place) {
  --missing_;
  const torch::Tensor& gradient = parameter(place).grad();
  const bool present = gradient.defined();
  if (plan_.sparse) {
    rows_used_ = present;
    rows_ = rows_of(gradient);
    return;
  }
  torch::Tensor& own = gradients_[place];
  if (!present) {
    own.zero_();
  } else if (gradient.is_sparse()) {
    own.copy_(gradient.to_dense());
  } else if (gradient.data_ptr() != own.data_ptr()) {
    own.copy_(gradient);
  }
  if (present && in_place(place)) parameter(place).mutable_grad() = own;
  flags_[static_cast<std::int64_t>(place)].fill_(present ? 1 : 0);
}

SparseRows GradientBucket::rows_of(const torch::Tensor& gradient) const {
  if (gradient.defined() && is_row_sparse(gradient)) return SparseRows::from(gradient);
  if (gradient.defined()) return SparseRows::from(gradient.to_dense().to_sparse(1));
  auto shape = parameter(0).sizes().vec();
  shape[0] = 0;
  return {{}, torch::empty(shape, parameter(0).options().requires_grad(false))};
}

void GradientBucket::prepare(bool stepping) {
  started_ = true;
  if (!plan_.sparse) flags_[static_cast<std::int64_t>(plan_.flags()) - 1].fill_(stepping ? 1 : 0);
}

void GradientBucket::start_planned(bool stepping) {
  prepare(stepping);
  if (device_ != nullptr) {
    turn_of_device_.emplace(*device_, plan_.device);
    device_->allreduce(flat_.data_ptr(), flat_.data_ptr(), plan_.gradient_elements,
                       data_type(plan_.type, "a bucket"), op_);
    turn_of_device_->end();
  }
  handle_ = world_.submit([this](Communicator& communicator) { reduce(communicator); }, label_);
}

void GradientBucket::start_negotiated(bool stepping) {
  prepare(stepping);
  handle_ = world_.allreduce_async(flat_.data_ptr(), flat_.data_ptr(), plan_.total_elements(),
                                   data_type(plan_.type, "a bucket"), op_,
                                   {.name = label_.name, .shape = described_turn()});
}

void GradientBucket::reduce(Communicator& communicator) {
  if (plan_.sparse) {
    ReducedRows reduced = reduce_rows(communicator, rows_, rows_used_, parameter(0).size(0), op_);
    rows_ = std::move(reduced.rows);
    rows_used_ = reduced.used;
  } else if (device_ != nullptr) {
    reduce_flags(communicator);
  } else if (compression_) {
    compression_->allreduce(communicator, flat_.data_ptr<float>(), plan_.gradient_elements, op_);
    reduce_flags(communicator);
  } else if (op_ == ReduceOp::adasum) {
    std::vector<std::size_t> tensors;
    for (std::size_t place = 0; place < plan_.parameters.size(); ++place)
      tensors.push_back(aligned_elements(parameter(place)));
    communicator.adasum(flat_.data_ptr(), flat_.data_ptr(), tensors,
                        data_type(plan_.type, "a bucket"));
    reduce_flags(communicator);
  } else {
    communicator.allreduce(flat_.data_ptr(), flat_.data_ptr(), plan_.total_elements(),
                           data_type(plan_.type, "a bucket"), op_);
  }
}

// Apart from gradients that travel another way, so that they stay exact.
void GradientBucket::reduce_flags(Communicator& communicator) {
  communicator.allreduce(flags_.data_ptr(), flags_.data_ptr(), plan_.flags(),
                         data_type(flags_.scalar_type(), "a bucket's flags"),
                         op_ == ReduceOp::adasum ? ReduceOp::sum : op_);
}

void GradientBucket::wait_for_reduction() {
  try {
    handle_.wait();
  } catch (const MismatchError& error) {
    started_ = false;
    throw MismatchError(fmt::format(
        "{}; ranks must step the same optimizers, and run backward() and clear gradients equally "
        "often in a step",
        error.what()));
  }
  if (turn_of_device_) turn_of_device_->await();
  started_ = false;
}

// Compared between ranks, as the label of the planned path is.
std::string GradientBucket::described_turn() const {
  return label_.turn == 0 ? "" : fmt::format("once more ({})", label_.turn);
}

void GradientBucket::reopen(const std::vector<bool>& kept) {
  // Also a pass that other ranks may have reduced: this one's next must not be paired with it.
  if (missing_ < plan_.parameters.size()) ++label_.turn;
  missing_ = plan_.parameters.size();
  if (!started_) return;
  wait_for_reduction();
  if (plan_.sparse) return;
  const torch::Tensor flags = flags_.to(torch::kFloat64);
  for (std::size_t place = 0; place < plan_.parameters.size(); ++place) {
    if (!in_place(place)) continue;
    if (kept[place]) {
      give_gradient(place, flags);
    } else {
      gradients_[place].zero_();
    }
  }
}

void GradientBucket::finish() {
  wait_for_reduction();
  missing_ = plan_.parameters.size();
  label_.turn = 0;
  if (plan_.sparse) {
    parameter(0).mutable_grad() =
        rows_used_ ? rows_.to_tensor(parameter(0).sizes()) : torch::Tensor();
    return;
  }
  const torch::Tensor flags = flags_.to(torch::kFloat64);
  anyone_stepped_ = flags[static_cast<std::int64_t>(plan_.flags()) - 1].item<double>() != 0;
  for (std::size_t place = 0; place < plan_.parameters.size(); ++place) give_gradient(place, flags);
}

void GradientBucket::give_gradient(std::size_t place, const torch::Tensor& flags) {
  const torch::Tensor& tensor = parameter(place);
  const double everybody = op_ == ReduceOp::average ? 1 : world_.size();
  const double flag = flags.data_ptr<double>()[place];
  presence_[place] = flag == 0           ? Presence::nowhere
                     : flag == everybody ? Presence::everywhere
                                         : Presence::on_some_ranks;
  if (presence_[place] == Presence::nowhere) {
    tensor.mutable_grad() = torch::Tensor();
  } else if (in_place(place)) {
    tensor.mutable_grad() = gradients_[place];
  } else {
    tensor.mutable_grad() = gradients_[place].to(tensor.device());
  }
}

}  // namespace sullae
