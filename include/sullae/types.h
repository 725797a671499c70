// Element types and reductions that every collective understands.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace sullae {

/// The type of one element of a buffer. `float16` is IEEE 754 binary16, `bfloat16` the upper half
/// of a binary32; both are reduced in float32 and rounded to nearest even: once within a host, and
/// over several hosts each time that values of some ranks travel on to others. There an average of
/// `float16` is scaled on the way, so that it is infinite only where a value is. `boolean` is one
/// byte, 0 or 1.
enum class DataType : std::uint8_t {
  float32,
  float64,
  float16,
  bfloat16,
  int8,
  int16,
  int32,
  int64,
  uint8,
  boolean,
};

/// How the values of all ranks become one. `average` divides the sum by the number of ranks; for
/// integers it rounds towards zero, and `boolean` refuses it. For `boolean`, sum and max mean "or",
/// product and min "and". Integers wrap around on overflow. `adasum`, for allreduce of
/// floating-point values, adds what is orthogonal and averages what is alike, pair by pair of ranks
/// (S. Maleki et al., Scaling Distributed Training with Adaptive Summation, MLSys 2021).
enum class ReduceOp : std::uint8_t { sum, average, min, max, product, adasum };

/// Bytes of one element.
constexpr std::size_t element_size(DataType type) {
  switch (type) {
    case DataType::float64:
    case DataType::int64:
      return 8;
    case DataType::float32:
    case DataType::int32:
      return 4;
    case DataType::float16:
    case DataType::bfloat16:
    case DataType::int16:
      return 2;
    case DataType::int8:
    case DataType::uint8:
    case DataType::boolean:
      return 1;
  }
  return 0;
}

/// "float32", "sum", …: the names used in messages, flags and reports.
std::string_view name(DataType type);
std::string_view name(ReduceOp op);

/// The DataType of a C++ type: `data_type_of<float>` is DataType::float32.
template <class T>
inline constexpr DataType data_type_of = T::unsupported_element_type;
template <>
inline constexpr DataType data_type_of<float> = DataType::float32;
template <>
inline constexpr DataType data_type_of<double> = DataType::float64;
template <>
inline constexpr DataType data_type_of<std::int8_t> = DataType::int8;
template <>
inline constexpr DataType data_type_of<std::int16_t> = DataType::int16;
template <>
inline constexpr DataType data_type_of<std::int32_t> = DataType::int32;
template <>
inline constexpr DataType data_type_of<std::int64_t> = DataType::int64;
template <>
inline constexpr DataType data_type_of<std::uint8_t> = DataType::uint8;
template <>
inline constexpr DataType data_type_of<bool> = DataType::boolean;

}  // namespace sullae
