// What a rank has of a parameter.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "sullae/parallel/tensor_parallel.h"

namespace sullae {

/// This rank's even part of `whole` along `dim`.
ParameterPart even_parameter_part(std::int64_t dim, std::int64_t whole, const World& world);

/// What this rank's even part of the heads has of `times` × `size` along `dim`.
ParameterPart heads_part(std::int64_t dim, int times, std::int64_t size, std::int64_t heads,
                         const World& world);

/// That of a parameter's name; null for one that is whole.
const ParameterPart* find_part(const std::map<std::string, ParameterPart>& parts,
                               const std::string& name);
/// The sizes of what `own` is `part` of; null: of itself.
std::vector<std::int64_t> whole_shape(const torch::Tensor& own, const ParameterPart* part);

/// Every rank's ranges, rank for rank, and whose they are. Collective.
std::vector<std::pair<IndexRange, int>> ranges_of_all(const ParameterPart& part,
                                                      const World& world);

/// A tensor of its own.
torch::Tensor take_part(const torch::Tensor& whole, const ParameterPart& part);

/// The rows of a table called `indices`, of which this rank has `part` and `own`: on every rank.
/// Collective, as its backward is not.
torch::Tensor embedding_in_parts(const torch::Tensor& own, const torch::Tensor& indices,
                                 const ParameterPart& part, const World& world);

/// Throws InputError where `size`, of `what`, is not at least 1 a rank.
void check_one_each(std::int64_t size, const World& world, const char* what);

/// Throws InputError, which begins with `what`, for one of `indices` that is none of [0, size).
void check_indices(const torch::Tensor& indices, std::int64_t size, const char* what);

}  // namespace sullae
