#include "support/values.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <stdexcept>

#include "base/half.h"

namespace sullae::testing {
namespace {

template <class T>
void put(std::vector<std::byte>& into, std::size_t index, T value) {
  std::memcpy(into.data() + index * sizeof value, &value, sizeof value);
}
template <class T>
T get(const std::vector<std::byte>& from, std::size_t index) {
  T value;
  std::memcpy(&value, from.data() + index * sizeof value, sizeof value);
  return value;
}

}  // namespace

double value_at(int rank, std::size_t index, DataType type) {
  const auto mixed = (index * 7 + static_cast<std::size_t>(rank) * 3 + index / 11) % 5;
  if (type == DataType::boolean) return mixed < 2 ? 1 : 0;
  if (type == DataType::uint8) return static_cast<double>(mixed % 3);
  return static_cast<double>(mixed % 3) - (mixed == 1 ? 2.0 : 0.0);
}

double expected(const std::vector<double>& values, DataType type, ReduceOp op) {
  double result = values[0];
  for (std::size_t i = 1; i < values.size(); ++i) {
    switch (op) {
      case ReduceOp::sum:
      case ReduceOp::average:
        result += values[i];
        break;
      case ReduceOp::product:
        result *= values[i];
        break;
      case ReduceOp::min:
        result = std::min(result, values[i]);
        break;
      case ReduceOp::max:
        result = std::max(result, values[i]);
        break;
      case ReduceOp::adasum:
        throw std::logic_error("adasum is not elementwise: see adasum_test");
    }
  }
  if (type == DataType::boolean) return result != 0 ? 1 : 0;
  if (op != ReduceOp::average) return result;
  const auto ranks = static_cast<double>(values.size());
  switch (type) {
    case DataType::float32:
      return static_cast<float>(result) * (1.0F / static_cast<float>(ranks));
    case DataType::float64:
      return result * (1.0 / ranks);
    case DataType::float16:
      return float16_to_float(
          float_to_float16(static_cast<float>(result) * (1.0F / static_cast<float>(ranks))));
    case DataType::bfloat16:
      return bfloat16_to_float(
          float_to_bfloat16(static_cast<float>(result) * (1.0F / static_cast<float>(ranks))));
    default:
      return std::trunc(result / ranks);
  }
}

void store(std::vector<std::byte>& into, std::size_t index, double value, DataType type) {
  switch (type) {
    case DataType::float32:
      return put(into, index, static_cast<float>(value));
    case DataType::float64:
      return put(into, index, value);
    case DataType::float16:
      return put(into, index, float_to_float16(static_cast<float>(value)));
    case DataType::bfloat16:
      return put(into, index, float_to_bfloat16(static_cast<float>(value)));
    case DataType::int8:
      return put(into, index, static_cast<std::int8_t>(value));
    case DataType::int16:
      return put(into, index, static_cast<std::int16_t>(value));
    case DataType::int32:
      return put(into, index, static_cast<std::int32_t>(value));
    case DataType::int64:
      return put(into, index, static_cast<std::int64_t>(value));
    case DataType::uint8:
    case DataType::boolean:
      return put(into, index, static_cast<std::uint8_t>(value));
  }
}

double load(const std::vector<std::byte>& from, std::size_t index, DataType type) {
  switch (type) {
    case DataType::float32:
      return get<float>(from, index);
    case DataType::float64:
      return get<double>(from, index);
    case DataType::float16:
      return float16_to_float(get<std::uint16_t>(from, index));
    case DataType::bfloat16:
      return bfloat16_to_float(get<std::uint16_t>(from, index));
    case DataType::int8:
      return get<std::int8_t>(from, index);
    case DataType::int16:
      return get<std::int16_t>(from, index);
    case DataType::int32:
      return get<std::int32_t>(from, index);
    case DataType::int64:
      return static_cast<double>(get<std::int64_t>(from, index));
    case DataType::uint8:
    case DataType::boolean:
      return get<std::uint8_t>(from, index);
  }
  return 0;
}

std::vector<std::byte> make_values(int rank, std::size_t count, DataType type,
                                   std::size_t first_index) {
  std::vector<std::byte> values(count * element_size(type));
  for (std::size_t i = 0; i < count; ++i)
    store(values, i, value_at(rank, first_index + i, type), type);
  return values;
}

}  // namespace sullae::testing
