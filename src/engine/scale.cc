#include "engine/scale.h"

#include <fmt/format.h>

#include <cstdint>

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
      return;
    default:
      throw InputError(fmt::format(
          "prescale and postscale are for floating-point values, not for {}", name(type)));
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
    default:
      check_scalable(type);
  }
}

}  // namespace sullae::engine
