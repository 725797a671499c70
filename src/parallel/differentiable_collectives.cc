#include "sullae/parallel/differentiable_collectives.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "parallel/ranges.h"
#include "sullae/torch.h"
#include "torch/held.h"

namespace sullae {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Its own memory, whatever `input` is.
torch::Tensor copied(const torch::Tensor& input) {
  return input.clone(torch::MemoryFormat::Contiguous);
}

torch::Tensor summed(const torch::Tensor& input, const World& world) {
  torch::Tensor sum = copied(input);
  if (world.size() > 1) allreduce(sum, ReduceOp::sum, world);
  return sum;
}

// What is one after the other along dimension 0 is so in memory: other dimensions change places
// with it for the way.
torch::Tensor gathered(const torch::Tensor& input, std::int64_t dim, const World& world) {
  if (world.size() == 1) return copied(input);
  return allgather(input.transpose(0, dim), world).transpose(0, dim).contiguous();
}

torch::Tensor part_of(const torch::Tensor& whole, std::int64_t dim, IndexRange range) {
  return copied(whole.narrow(dim, range.from, range.size()));
}

torch::Tensor reduced_part(const torch::Tensor& input, std::int64_t dim,
                           const std::vector<IndexRange>& parts, const World& world) {
  const IndexRange own = parts[static_cast<std::size_t>(world.rank())];
  const bool even = std::ranges::all_of(
      parts, [&](const IndexRange& part) { return part.size() == parts[0].size(); });
  if (world.size() == 1 || !even || own.size() == 0) return part_of(summed(input, world), dim, own);
  return reducescatter(input.transpose(0, dim), ReduceOp::sum, world)
      .transpose(0, dim)
      .contiguous();
}

std::vector<IndexRange> even_parts(std::int64_t whole, const World& world) {
  std::vector<IndexRange> parts;
  for (int rank = 0; rank < world.size(); ++rank)
    parts.push_back(even_part(whole, world.size(), rank));
  return parts;
}

// Where each rank's rows are when they are put together.
std::vector<IndexRange> parts_together(std::int64_t own, const World& world) {
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(world.size()));
  world.allgather(&own, sizes.data(), 1, DataType::int64);
  std::vector<IndexRange> parts;
  for (std::int64_t from = 0; const std::int64_t size : sizes) {
    parts.push_back({from, from + size});
    from += size;
  }
  return parts;
}

torch::Tensor exchanged(const torch::Tensor& input, std::int64_t split, std::int64_t concat,
                        const World& world) {
  if (world.size() == 1) return copied(input);
  const auto parts = torch::stack(input.chunk(world.size(), split));
  return torch::cat(alltoall(parts, world).unbind(), concat);
}

// An operation: what it does, what backward does, and what both know.

struct AllReduce {
  World world;
  torch::Tensor forward(const torch::Tensor& input) const { return summed(input, world); }
  torch::Tensor backward(const torch::Tensor& gradient) const { return summed(gradient, world); }
};

struct AllGather {
  World world;
  std::int64_t dim;
  std::vector<IndexRange> parts;
  torch::Tensor forward(const torch::Tensor& input) const { return gathered(input, dim, world); }
  torch::Tensor backward(const torch::Tensor& gradient) const {
    return reduced_part(gradient, dim, parts, world);
  }
};

struct ReduceScatter {
  World world;
  std::int64_t dim;
  std::vector<IndexRange> parts;
  torch::Tensor forward(const torch::Tensor& input) const {
    return reduced_part(input, dim, parts, world);
  }
  torch::Tensor backward(const torch::Tensor& gradient) const {
    return gathered(gradient, dim, world);
  }
};

struct AllToAll {
  World world;
  std::int64_t split;
  std::int64_t concat;
  torch::Tensor forward(const torch::Tensor& input) const {
    return exchanged(input, split, concat, world);
  }
  torch::Tensor backward(const torch::Tensor& gradient) const {
    return exchanged(gradient, concat, split, world);
  }
};

struct Copy {
  World world;
  torch::Tensor forward(const torch::Tensor& input) const { return input.view_as(input); }
  torch::Tensor backward(const torch::Tensor& gradient) const { return summed(gradient, world); }
};

struct Reduce {
  World world;
  torch::Tensor forward(const torch::Tensor& input) const { return summed(input, world); }
  torch::Tensor backward(const torch::Tensor& gradient) const { return gradient; }
};

struct Scatter {
  World world;
  std::int64_t dim;
  IndexRange own;
  torch::Tensor forward(const torch::Tensor& input) const { return part_of(input, dim, own); }
  torch::Tensor backward(const torch::Tensor& gradient) const {
    return gathered(gradient, dim, world);
  }
};

struct Gather {
  World world;
  std::int64_t dim;
  IndexRange own;
  torch::Tensor forward(const torch::Tensor& input) const { return gathered(input, dim, world); }
  torch::Tensor backward(const torch::Tensor& gradient) const {
    return part_of(gradient, dim, own);
  }
};

template <class Operation>
struct Through : torch::autograd::Function<Through<Operation>> {
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& input,
                               const Operation& operation) {
    hold(*context, operation);
    return operation.forward(input);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    return {held<Operation>(*context).backward(gradients[0]), {}};
  }
};

template <class Operation>
torch::Tensor apply(const torch::Tensor& input, Operation operation) {
  return Through<Operation>::apply(input, operation);
}

std::int64_t checked_dim(const torch::Tensor& input, std::int64_t dim, const char* what) {
  const std::int64_t found = dim < 0 ? dim + input.dim() : dim;
  if (found < 0 || found >= input.dim())
    throw InputError(fmt::format("{}: dimension {} of a tensor of shape [{}]", what, dim,
                                 fmt::join(input.sizes(), ", ")));
  return found;
}

}  // namespace

torch::Tensor all_reduce_grad(const torch::Tensor& input, const World& world) {
  return apply(input, AllReduce{world});
}

torch::Tensor all_gather_grad(const torch::Tensor& input, std::int64_t dim, const World& world) {
  dim = checked_dim(input, dim, "all_gather_grad");
  return apply(input, AllGather{world, dim, parts_together(input.size(dim), world)});
}

torch::Tensor reduce_scatter_grad(const torch::Tensor& input, std::int64_t dim,
                                  const World& world) {
  dim = checked_dim(input, dim, "reduce_scatter_grad");
  return apply(input, ReduceScatter{world, dim, even_parts(input.size(dim), world)});
}

torch::Tensor all_to_all_grad(const torch::Tensor& input, std::int64_t split, std::int64_t concat,
                              const World& world) {
  split = checked_dim(input, split, "all_to_all_grad");
  concat = checked_dim(input, concat, "all_to_all_grad");
  if (split == concat)
    throw InputError(fmt::format(
        "all_to_all_grad: dimension {} is both split and concatenated: expected two", split));
  if (input.size(split) % world.size() != 0)
    throw InputError(
        fmt::format("all_to_all_grad: dimension {} has {}, which {} ranks do not divide", split,
                    input.size(split), world.size()));
  return apply(input, AllToAll{world, split, concat});
}

torch::Tensor copy_to_ranks(const torch::Tensor& input, const World& world) {
  return world.size() == 1 ? input : apply(input, Copy{world});
}

torch::Tensor reduce_from_ranks(const torch::Tensor& input, const World& world) {
  return world.size() == 1 ? input : apply(input, Reduce{world});
}

torch::Tensor scatter_to_ranks(const torch::Tensor& input, std::int64_t dim, const World& world) {
  dim = checked_dim(input, dim, "scatter_to_ranks");
  return apply(input, Scatter{world, dim, even_part(input.size(dim), world.size(), world.rank())});
}

torch::Tensor gather_from_ranks(const torch::Tensor& input, std::int64_t dim, const World& world) {
  dim = checked_dim(input, dim, "gather_from_ranks");
  const auto parts = parts_together(input.size(dim), world);
  return apply(input, Gather{world, dim, parts[static_cast<std::size_t>(world.rank())]});
}

}  // namespace sullae
