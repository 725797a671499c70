// Test values of every element type, as doubles on one side and as stored elements on the other.
#pragma once

#include <cstddef>
#include <vector>

#include "sullae/types.h"

namespace sullae::testing {

inline constexpr DataType kAllTypes[] = {
    DataType::float32, DataType::float64, DataType::float16, DataType::bfloat16, DataType::int8,
    DataType::int16,   DataType::int32,   DataType::int64,   DataType::uint8,    DataType::boolean};
inline constexpr ReduceOp kAllOps[] = {ReduceOp::sum, ReduceOp::average, ReduceOp::min,
                                       ReduceOp::max, ReduceOp::product};

/// Small integers, exact in every type even after a reduction over five ranks.
double value_at(int rank, std::size_t index, DataType type);

/// What the reduction of `values` (one a rank) must give, rounded as `type` rounds.
double expected(const std::vector<double>& values, DataType type, ReduceOp op);

void store(std::vector<std::byte>& into, std::size_t index, double value, DataType type);
double load(const std::vector<std::byte>& from, std::size_t index, DataType type);

/// `count` elements of rank `rank`.
std::vector<std::byte> make_values(int rank, std::size_t count, DataType type,
                                   std::size_t first_index = 0);

}  // namespace sullae::testing
