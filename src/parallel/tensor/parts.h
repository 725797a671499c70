// What a rank has of a parameter.
#pragma once

#include <torch/types.h>

#include <cstdint>

#include "sullae/parallel/tensor_parallel.h"

namespace sullae {

/// This rank's even part of `whole` along `dim`.
ParameterPart even_parameter_part(std::int64_t dim, std::int64_t whole, const World& world);

/// A tensor of its own.
torch::Tensor take_part(const torch::Tensor& whole, const ParameterPart& part);

/// Throws InputError where `size`, of `what`, is not at least 1 a rank.
void check_one_each(std::int64_t size, const World& world, const char* what);

/// Throws InputError, which begins with `what`, for one of `indices` that is none of [0, size).
void check_indices(const torch::Tensor& indices, std::int64_t size, const char* what);

}  // namespace sullae
