#include "collective/adasum/kernels.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/half.h"

namespace sullae::adasum {
namespace {

// Loops run over blocks of values that are already float or double.
constexpr std::size_t kBlock = 256;
// So many sums at once, which the compiler keeps in vector registers.
constexpr std::size_t kLanes = 8;

template <class Value>
struct Plain {
  using value_type = Value;
  using stored_type = Value;
  static const Value* load(const Value* from, std::size_t, std::array<Value, kBlock>&) {
    return from;
  }
  static void store(const Value* values, std::size_t count, Value* into) {
    std::copy_n(values, count, into);
  }
};

template <float (*ToFloat)(std::uint16_t), std::uint16_t (*FromFloat)(float)>
struct Half {
  using value_type = float;
  using stored_type = std::uint16_t;
  static const float* load(const std::uint16_t* from, std::size_t count,
                           std::array<float, kBlock>& block) {
    for (std::size_t i = 0; i < count; ++i) block[i] = ToFloat(from[i]);
    return block.data();
  }
  static void store(const float* values, std::size_t count, std::uint16_t* into) {
    for (std::size_t i = 0; i < count; ++i) into[i] = FromFloat(values[i]);
  }
};

// Calls `call` with the access to `type`.
template <class Call>
auto with_type(DataType type, const Call& call) {
  switch (type) {
    case DataType::float64:
      return call(Plain<double>{});
    case DataType::float16:
      return call(Half<float16_to_float, float_to_float16>{});
    case DataType::bfloat16:
      return call(Half<bfloat16_to_float, float_to_bfloat16>{});
    default:
      return call(Plain<float>{});
  }
}

template <class Value>
void add_dots(const Value* a, const Value* b, std::size_t count, Dots& sum) {
  std::array<double, kLanes> ab{};
  std::array<double, kLanes> aa{};
  std::array<double, kLanes> bb{};
  const std::size_t whole = count / kLanes * kLanes;
  const auto add = [&](std::size_t lane, std::size_t i) {
    const auto x = static_cast<double>(a[i]);
    const auto y = static_cast<double>(b[i]);
    ab[lane] += x * y;
    aa[lane] += x * x;
    bb[lane] += y * y;
  };
  for (std::size_t i = 0; i < whole; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) add(lane, i + lane);
  }
  for (std::size_t i = whole; i < count; ++i) add(i - whole, i);
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    sum.ab += ab[lane];
    sum.aa += aa[lane];
    sum.bb += bb[lane];
  }
}

}  // namespace

Dots dots(const void* a, const void* b, std::size_t count, DataType type) {
  return with_type(type, [&](auto access) {
    using Access = decltype(access);
    using Stored = typename Access::stored_type;
    std::array<typename Access::value_type, kBlock> first;
    std::array<typename Access::value_type, kBlock> second;
    Dots sum;
    for (std::size_t at = 0; at < count; at += kBlock) {
      const std::size_t size = std::min(kBlock, count - at);
      add_dots(Access::load(static_cast<const Stored*>(a) + at, size, first),
               Access::load(static_cast<const Stored*>(b) + at, size, second), size, sum);
    }
    return sum;
  });
}

void combine(const Dots& dots, const void* a, const void* b, void* out, std::size_t count,
             DataType type) {
  const double of_a = dots.aa > 0 ? 1 - dots.ab / (2 * dots.aa) : 1;
  const double of_b = dots.bb > 0 ? 1 - dots.ab / (2 * dots.bb) : 1;
  with_type(type, [&](auto access) {
    using Access = decltype(access);
    using Stored = typename Access::stored_type;
    using Value = typename Access::value_type;
    std::array<Value, kBlock> first;
    std::array<Value, kBlock> second;
    std::array<Value, kBlock> result;
    for (std::size_t at = 0; at < count; at += kBlock) {
      const std::size_t size = std::min(kBlock, count - at);
      const Value* const x = Access::load(static_cast<const Stored*>(a) + at, size, first);
      const Value* const y = Access::load(static_cast<const Stored*>(b) + at, size, second);
      for (std::size_t i = 0; i < size; ++i) {
        result[i] =
            static_cast<Value>(of_a * static_cast<double>(x[i]) + of_b * static_cast<double>(y[i]));
      }
      Access::store(result.data(), size, static_cast<Stored*>(out) + at);
    }
  });
}

}  // namespace sullae::adasum
