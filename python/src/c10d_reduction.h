// The reductions of torch.distributed, of which some are none of Sullae's.
#pragma once

#include <torch/csrc/distributed/c10d/Types.hpp>

#include "c10d_tensors.h"
#include "sullae/communicator.h"

namespace sullae::python {

inline at::Tensor bitwise(c10d::ReduceOp::RedOpType op, const at::Tensor& a, const at::Tensor& b) {
  if (op == c10d::ReduceOp::BAND) return at::bitwise_and(a, b);
  return op == c10d::ReduceOp::BOR ? at::bitwise_or(a, b) : at::bitwise_xor(a, b);
}

struct Reduction {
  explicit Reduction(const c10d::ReduceOp& given) : kind(given.op_) {
    switch (kind) {
      case c10d::ReduceOp::AVG:
        op = ReduceOp::average;
        break;
      case c10d::ReduceOp::PRODUCT:
        op = ReduceOp::product;
        break;
      case c10d::ReduceOp::MIN:
        op = ReduceOp::min;
        break;
      case c10d::ReduceOp::MAX:
        op = ReduceOp::max;
        break;
      default:
        break;
    }
    if (kind == c10d::ReduceOp::PREMUL_SUM) {
      const auto* supplement =
          static_cast<const c10d::NCCLPreMulSumSupplement*>(given.supplement_.get());
      factor = supplement->tensor_factor.defined() ? supplement->tensor_factor.item<double>()
                                                   : supplement->double_factor;
    }
  }
  /// Throws InputError for a tensor that cannot be reduced so.
  void check(const at::Tensor& tensor) const {
    check_host(tensor);
    const bool sums = kind == c10d::ReduceOp::SUM || kind == c10d::ReduceOp::AVG;
    if (tensor.is_complex() && !sums)
      throw InputError("torch.distributed: complex numbers can be summed and averaged alone");
    if (!is_bitwise()) {
      if (!tensor.is_complex()) data_type(tensor.scalar_type(), "torch.distributed: the tensor");
    } else if (!at::isIntegralType(tensor.scalar_type(), true)) {
      throw InputError(
          fmt::format("torch.distributed: BAND, BOR and BXOR of {}: expected whole "
                      "numbers or bool",
                      c10::toString(tensor.scalar_type())));
    }
    if (kind == c10d::ReduceOp::PREMUL_SUM && !tensor.is_floating_point())
      throw InputError(
          "torch.distributed: PREMUL_SUM: expected a tensor of floating point numbers");
  }

  bool is_bitwise() const {
    return kind == c10d::ReduceOp::BAND || kind == c10d::ReduceOp::BOR ||
           kind == c10d::ReduceOp::BXOR;
  }

  // `tensor` (contiguous) becomes the reduction of every rank's.
  void allreduce(Communicator& ranks, at::Tensor tensor) const {
    if (tensor.is_complex() && (kind == c10d::ReduceOp::SUM || kind == c10d::ReduceOp::AVG))
      tensor = at::view_as_real(tensor);
    if (is_bitwise()) {
      const Moved moved(tensor);
      at::Tensor all = at::empty({ranks.size(), tensor.numel()}, tensor.options());
      ranks.allgather(tensor.data_ptr(), all.data_ptr(),
                      Counts(static_cast<std::size_t>(ranks.size()), moved.count(tensor)),
                      moved.type);
      at::Tensor result = all[0];
      for (std::int64_t r = 1; r < ranks.size(); ++r) result = bitwise(kind, result, all[r]);
      tensor.copy_(result.view(tensor.sizes()));
      return;
    }
    if (factor != 1.0) tensor.mul_(factor);
    ranks.allreduce(tensor.data_ptr(), tensor.data_ptr(), count_of(tensor),
                    data_type(tensor.scalar_type(), "torch.distributed: the tensor"), op);
  }

  // Of `input` to this rank's `output`, both contiguous.
  void reducescatter(Communicator& ranks, at::Tensor input, at::Tensor output,
                     Counts counts) const {
    if (input.is_complex()) {
      input = at::view_as_real(input);
      output = at::view_as_real(output);
      for (std::size_t& count : counts) count *= 2;
    }
    const DataType type = data_type(input.scalar_type(), "torch.distributed: the tensor");
    if (is_bitwise()) {
      input = input.clone();
      allreduce(ranks, input);
      std::size_t before = 0;
      for (int r = 0; r < ranks.rank(); ++r) before += counts[static_cast<std::size_t>(r)];
      output.copy_(input.view({-1})
                       .narrow(0, static_cast<std::int64_t>(before), output.numel())
                       .view(output.sizes()));
      return;
    }
    if (factor != 1.0) input = input * factor;
    ranks.reducescatter(input.data_ptr(), output.data_ptr(), counts, type, op);
  }

  c10d::ReduceOp::RedOpType kind;
  ReduceOp op = ReduceOp::sum;
  double factor = 1.0;
};

}  // namespace sullae::python
