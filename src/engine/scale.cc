#include "engine/scale.h"

#include <fmt/format.h>

#include <cstdint>
#include <limits>

#include "base/half.h"
#include "sullae/error.h"

namespace sullae::engine {
namespace {

template <class T, class Value>
void scale_values(const void* in, void* out, std::size_t count, Value factor) {
  const auto* from = static_cast<const T*>(in);
  auto* into = static_cast<T*>(out);
  for (std::size_t i = 0; i < count; ++i) into[i] = from[i] * factor;
}

// A product that the type does not hold becomes its nearest value: to convert it would be
// undefined.
template <class T>
void scale_integers(const void* in, void* out, std::size_t count, double factor) {
  constexpr auto kLeast = std::numeric_limits<T>::min();
  constexpr auto kMost = std::numeric_limits<T>::max();
  const auto* from = static_cast<const T*>(in);
  auto* into = static_cast<T*>(out);
  for (std::size_t i = 0; i < count; ++i) {
    const double product = static_cast<double>(from[i]) * factor;
    into[i] = product <= static_cast<double>(kLeast) ? kLeast
              : product < static_cast<double>(kMost) ? static_cast<T>(product)
                                                     : kMost;
  }
}

template <float (*Widen)(std::uint16_t), std::uint16_t (*Narrow)(float)>
void scale_halves(const void* in, void* out, std::size_t count, float factor) {
  const auto* from = static_cast<const std::uint16_t*>(in);
  auto* into = static_cast<std::uint16_t*>(out);
  for (std::size_t i = 0; i < count; ++i) into[i] = Narrow(Widen(from[i]) * factor);
}

}  // namespace

void check_scalable(DataType type) {
  switch (type) {
    case DataType::float32:
    case DataType::float64:
    case DataType::float16:
    case DataType::bfloat16:
    case DataType::int8:
    case DataType::int16:
    case DataType::int32:
    case DataType::int64:
    case DataType::uint8:
      return;
    case DataType::boolean:
      throw InputError("prescale and postscale are for numbers, not for bool");
  }
}

void scale(const void* in, void* out, std::size_t count, DataType type, double factor) {
  switch (type) {
    case DataType::float32:
      return scale_values<float>(in, out, count, static_cast<float>(factor));
    case DataType::float64:
      return scale_values<double>(in, out, count, factor);
    case DataType::float16:
      return scale_halves<float16_to_float, float_to_float16>(in, out, count,
                                                              static_cast<float>(factor));
    case DataType::bfloat16:
      return scale_halves<bfloat16_to_float, float_to_bfloat16>(in, out, count,
                                                                static_cast<float>(factor));
    case DataType::int8:
      return scale_integers<std::int8_t>(in, out, count, factor);
    case DataType::int16:
      return scale_integers<std::int16_t>(in, out, count, factor);
    case DataType::int32:
      return scale_integers<std::int32_t>(in, out, count, factor);
    case DataType::int64:
      return scale_integers<std::int64_t>(in, out, count, factor);
    case DataType::uint8:
      return scale_integers<std::uint8_t>(in, out, count, factor);
    case DataType::boolean:
      check_scalable(type);
  }
}

}  // namespace sullae::engine
