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
  void reducescatter(Communicator& ranks, at::Tensor input, const at::Tensor& output,
                     const Counts& counts) const {
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
