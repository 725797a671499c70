// Collectives that backward() goes through.
#pragma once

#include <torch/types.h>

#include <cstdint>

#include "sullae/sullae.h"

namespace sullae {

// Each returns a tensor that is not to be changed in place, and its backward is a collective, too:
// ranks must call them in the same order, and run backward() over the same ones. Tensors of
// floating-point numbers on any device. Used by one thread of a rank at a time; backward() is the
// thread that calls it. They throw what World's collectives do, and InputError for shapes that
// cannot be.
//
// Dimensions that are divided among ranks are divided evenly; where that does not come out, the
// first ranks have one more.

// Where each rank goes on with a loss of its own: the gradients are those of the sum of all ranks'
// losses.

/// The sum over all ranks.
torch::Tensor all_reduce_grad(const torch::Tensor& input, const World& world = sullae::world());
/// Every rank's input, one after the other along `dim`, in which they may differ.
torch::Tensor all_gather_grad(const torch::Tensor& input, std::int64_t dim,
                              const World& world = sullae::world());
/// This rank's part along `dim` of the sum over all ranks.
torch::Tensor reduce_scatter_grad(const torch::Tensor& input, std::int64_t dim,
                                  const World& world = sullae::world());
/// Sends the r-th part along `split` to rank r; what arrives stands along `concat`: what was
/// divided in one dimension is divided in another, as of sequences and heads in attention (S.
/// Jacobs et al., 2023: Ulysses). The size of `split` must be a multiple of the ranks, and all
/// inputs have the same shape.
torch::Tensor all_to_all_grad(const torch::Tensor& input, std::int64_t split, std::int64_t concat,
                              const World& world = sullae::world());

// Between what all ranks compute alike, the loss among it, and what each computes a part of (M.
// Shoeybi et al., 2019: Megatron-LM, f and g). Gradients of what is alike are alike.

/// The input, for each rank's part of the work; backward adds up what the ranks say of it.
torch::Tensor copy_to_ranks(const torch::Tensor& input, const World& world = sullae::world());
/// The sum of the ranks' parts; backward hands on the gradient.
torch::Tensor reduce_from_ranks(const torch::Tensor& input, const World& world = sullae::world());
/// This rank's part of the input along `dim`; backward puts the parts together.
torch::Tensor scatter_to_ranks(const torch::Tensor& input, std::int64_t dim,
                               const World& world = sullae::world());
/// The ranks' parts, put together along `dim`; backward takes this rank's.
torch::Tensor gather_from_ranks(const torch::Tensor& input, std::int64_t dim,
                                const World& world = sullae::world());

}  // namespace sullae
