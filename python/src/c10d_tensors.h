// What the backend for torch.distributed needs to know of tensors. Functions throw InputError.
#pragma once

#include <fmt/format.h>
#include <torch/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <utility>
#include <vector>

#include "sullae/error.h"
#include "torch/tensor_checks.h"
#include "torch/tensor_type.h"

namespace sullae::python {

using Tensors = std::vector<at::Tensor>;
using Counts = std::vector<std::size_t>;

// What the options of a call say of its way: whether the caller goes on meanwhile, and how long it
// waits at most.
struct Way {
  bool in_background = true;
  std::chrono::milliseconds limit = kNoTimeout;
};

template <class Options>
Way way_of(const Options& options) {
  Way way;
  // torch before 2.7 does not say whether the caller waits.
  if constexpr (requires { options.asyncOp; }) way.in_background = options.asyncOp;
  if (options.timeout > kNoTimeout) way.limit = options.timeout;  // -1: the group's
  return way;
}

inline bool is_sparse(const at::Tensor& tensor) {
  return tensor.defined() && tensor.layout() == at::kSparse && tensor.device().is_cpu();
}

inline void check_host(const at::Tensor& tensor) {
  check_defined(tensor, "torch.distributed");
  if (is_sparse(tensor)) {
    throw InputError(
        fmt::format("torch.distributed with sullae: a sparse tensor of {}: expected a dense one, "
                    "such as its to_dense(): all_reduce alone takes sparse ones",
                    shape_of(tensor)));
  }
  if (!tensor.device().is_cpu() || tensor.layout() != at::kStrided) {
    throw InputError(
        fmt::format("torch.distributed with sullae: a tensor of {} on {}: expected a dense one on "
                    "the CPU; for others name "
                    "another backend as well, as in init_process_group(\"cpu:sullae,cuda:nccl\")",
                    shape_of(tensor), tensor.device().str()));
  }
}

inline const at::Tensor& only(const Tensors& tensors) {
  if (tensors.size() != 1)
    throw InputError(fmt::format("torch.distributed: {} tensors: expected one", tensors.size()));
  check_host(tensors[0]);
  return tensors[0];
}

// What is only moved is bytes where it is of a type that cannot be reduced.
struct Moved {
  explicit Moved(const at::Tensor& tensor) {
    switch (tensor.scalar_type()) {
      case at::kFloat:
      case at::kDouble:
      case at::kHalf:
      case at::kBFloat16:
      case at::kChar:
      case at::kShort:
      case at::kInt:
      case at::kLong:
      case at::kByte:
      case at::kBool:
        type = data_type(tensor.scalar_type(), "the tensor");
        scale = 1;
        break;
      default:
        scale = tensor.element_size();
    }
  }
  std::size_t count(const at::Tensor& tensor) const { return count_of(tensor) * scale; }
  DataType type = DataType::uint8;
  std::size_t scale = 1;
};

// The tensor's memory, or a copy that goes back when this ends.
class Written {
 public:
  explicit Written(at::Tensor target) : target_(std::move(target)), memory_(target_.contiguous()) {}
  const at::Tensor& memory() const { return memory_; }
  void finish() const {
    if (memory_.data_ptr() != target_.data_ptr()) target_.copy_(memory_);
  }

 private:
  at::Tensor target_;
  at::Tensor memory_;
};

// [a row a rank] → the tensors of the ranks.
inline void share_out(const at::Tensor& flat, const Tensors& outputs) {
  std::int64_t at = 0;
  for (const at::Tensor& output : outputs) {
    output.copy_(flat.narrow(0, at, output.numel()).view(output.sizes()));
    at += output.numel();
  }
}

inline at::Tensor flat_like(const Tensors& tensors) {
  std::int64_t elements = 0;
  for (const at::Tensor& tensor : tensors) elements += tensor.numel();
  return at::empty({elements}, tensors.at(0).options());
}

inline at::Tensor flattened(const Tensors& tensors) {
  Tensors flat;
  for (const at::Tensor& tensor : tensors) flat.push_back(tensor.reshape({-1}));
  return at::cat(flat);
}

inline Counts counts_of(const Tensors& tensors, const Moved& moved) {
  Counts counts;
  for (const at::Tensor& tensor : tensors) counts.push_back(moved.count(tensor));
  return counts;
}

// Before anything is submitted: what fails while it is under way ends the group.
inline void check_written(const at::Tensor& tensor) {
  check_host(tensor);
  check_writable(tensor, "torch.distributed");
}

// What goes from one to the other, by the element.
inline void check_alike(const at::Tensor& from, const at::Tensor& to, const char* what) {
  if (from.scalar_type() == to.scalar_type() && from.numel() == to.numel()) return;
  throw InputError(
      fmt::format("{}: a result {} of {} for {} of {}: expected as many elements of "
                  "one type",
                  what, shape_of(to), c10::toString(to.scalar_type()), shape_of(from),
                  c10::toString(from.scalar_type())));
}

inline void check_types(const Tensors& tensors, const at::Tensor& like, const char* what) {
  for (const at::Tensor& tensor : tensors) {
    if (tensor.scalar_type() == like.scalar_type()) continue;
    throw InputError(fmt::format("{}: tensors of {} and {} together: expected one type", what,
                                 c10::toString(like.scalar_type()),
                                 c10::toString(tensor.scalar_type())));
  }
}

// One list of tensors, as lists of torch.distributed's are for what this rank does not take part
// in.
inline const Tensors& list_of(const std::vector<Tensors>& lists, const char* what) {
  if (lists.size() == 1) return lists[0];
  throw InputError(fmt::format("{}: {} lists of tensors: expected one", what, lists.size()));
}

inline void check_ranks(const Tensors& tensors, int size, const char* what) {
  for (const at::Tensor& tensor : tensors) check_host(tensor);
  if (tensors.size() != static_cast<std::size_t>(size))
    throw InputError(fmt::format("{}: {} tensors for {} ranks: expected one a rank", what,
                                 tensors.size(), size));
}

inline Counts same_counts(int size, std::size_t count) {
  return Counts(static_cast<std::size_t>(size), count);
}

}  // namespace sullae::python
