// The reduction kernels, written once and compiled once for each instruction set. The including
// file defines `Half`, which loads and stores runs of the 16-bit types, before it includes this
// one, and defines the KernelSet after it.
//
// Everything is in an unnamed namespace and nothing of the standard library is called: an inline
// function that two instruction sets share would be merged by the linker into whichever copy it
// meets first, and an AVX-512 copy must not reach a processor without AVX-512.
#pragma once

#include <cstddef>
#include <cstdint>

#include "collective/reduce/reduce.h"

namespace sullae::reduction {
namespace {

// Elements in a block: a block of float32 accumulators is 4 KiB and stays in the first-level cache.
constexpr std::size_t kBlock = 1024;

struct Sum {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(a + b);
  }
};
struct Product {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(a * b);
  }
};
// What is not a number on one rank is not a number in the result, whichever rank has it: as in
// libtorch.
struct Min {
  template <class T>
  static T apply(T a, T b) {
    return b < a || b != b ? b : a;
  }
};
struct Max {
  template <class T>
  static T apply(T a, T b) {
    return a < b || b != b ? b : a;
  }
};

// How a stored element becomes an accumulator and back.
template <class T>
struct Native {
  using Stored = T;
  using Accumulator = T;
  static void load(const T* from, T* into, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) into[i] = from[i];
  }
  static void store(const T* from, T* into, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) into[i] = from[i];
  }
};
struct Float16 {
  using Stored = std::uint16_t;
  using Accumulator = float;
  static void load(const std::uint16_t* from, float* into, std::size_t n) {
    Half::load_float16(from, into, n);
  }
  static void store(const float* from, std::uint16_t* into, std::size_t n) {
    Half::store_float16(from, into, n);
  }
};
struct BFloat16 {
  using Stored = std::uint16_t;
  using Accumulator = float;
  static void load(const std::uint16_t* from, float* into, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
      const std::uint32_t bits = static_cast<std::uint32_t>(from[i]) << 16;
      __builtin_memcpy(into + i, &bits, sizeof bits);
    }
  }
  static void store(const float* from, std::uint16_t* into, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
      std::uint32_t bits;
      __builtin_memcpy(&bits, from + i, sizeof bits);
      const std::uint32_t rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
      const std::uint32_t quiet_nan = (bits >> 16) | 0x0040U;
      into[i] =
          static_cast<std::uint16_t>((bits & 0x7fffffffU) > 0x7f800000U ? quiet_nan : rounded);
    }
  }
};

// Signed overflow must wrap, so sums and products of signed integers go through unsigned
// arithmetic.
template <class Op, class T>
T combine(T a, T b) {
  return Op::apply(a, b);
}
template <>
[[maybe_unused]] std::int8_t combine<Sum>(std::int8_t a, std::int8_t b) {
  return static_cast<std::int8_t>(
      Sum::apply<std::uint8_t>(static_cast<std::uint8_t>(a), static_cast<std::uint8_t>(b)));
}
template <>
[[maybe_unused]] std::int32_t combine<Sum>(std::int32_t a, std::int32_t b) {
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(a) + static_cast<std::uint32_t>(b));
}
template <>
[[maybe_unused]] std::int64_t combine<Sum>(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}
template <>
[[maybe_unused]] std::int32_t combine<Product>(std::int32_t a, std::int32_t b) {
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(a) * static_cast<std::uint32_t>(b));
}
template <>
[[maybe_unused]] std::int64_t combine<Product>(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
}

template <class Format>
void load_input(const Task& task, std::size_t input, std::size_t offset,
                typename Format::Accumulator* into, std::size_t n) {
  using Stored = typename Format::Stored;
  using Accumulator = typename Format::Accumulator;
  Format::load(static_cast<const Stored*>(task.inputs[input]) + offset, into, n);
  if constexpr (sizeof(Stored) != sizeof(Accumulator)) {
    if (task.weights == nullptr) return;
    const auto weight = static_cast<Accumulator>(task.weights[input]);
    for (std::size_t i = 0; i < n; ++i) into[i] *= weight;
  }
}

template <class Format, class Op>
void accumulate(const Task& task, std::size_t input, std::size_t offset,
                typename Format::Accumulator* into, std::size_t n) {
  using Accumulator = typename Format::Accumulator;
  Accumulator loaded[kBlock];
  load_input<Format>(task, input, offset, loaded, n);
  for (std::size_t i = 0; i < n; ++i) into[i] = combine<Op, Accumulator>(into[i], loaded[i]);
}
template <class T, class Op>
void accumulate_native(T* into, const T* from, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) into[i] = combine<Op, T>(into[i], from[i]);
}

template <class T>
void divide(T* values, std::size_t n, int divisor) {
  for (std::size_t i = 0; i < n; ++i)
    values[i] = static_cast<T>(values[i] / static_cast<T>(divisor));
}
// One multiplication is several times faster than a division, and exact where P is a power of two.
template <>
[[maybe_unused]] void divide<float>(float* values, std::size_t n, int divisor) {
  const float scale = 1.0F / static_cast<float>(divisor);
  for (std::size_t i = 0; i < n; ++i) values[i] *= scale;
}
template <>
[[maybe_unused]] void divide<double>(double* values, std::size_t n, int divisor) {
  const double scale = 1.0 / static_cast<double>(divisor);
  for (std::size_t i = 0; i < n; ++i) values[i] *= scale;
}
// As an int: int8 has no number for more than 127 ranks.
template <>
[[maybe_unused]] void divide<std::int8_t>(std::int8_t* values, std::size_t n, int divisor) {
  for (std::size_t i = 0; i < n; ++i) values[i] = static_cast<std::int8_t>(values[i] / divisor);
}
template <>
[[maybe_unused]] void divide<std::uint8_t>(std::uint8_t* values, std::size_t n, int divisor) {
  for (std::size_t i = 0; i < n; ++i) values[i] = static_cast<std::uint8_t>(values[i] / divisor);
}

template <class Stored>
void copy_to_others(const Task& task, std::size_t offset, std::size_t n) {
  const auto* first = static_cast<const Stored*>(task.outputs[0]) + offset;
  for (std::size_t j = 1; j < task.output_count; ++j) {
    __builtin_memcpy(static_cast<Stored*>(task.outputs[j]) + offset, first, n * sizeof(Stored));
  }
}

template <class Format, class Op>
void reduce_blocks(const Task& task) {
  using Stored = typename Format::Stored;
  using Accumulator = typename Format::Accumulator;
  alignas(64) Accumulator sums[kBlock];
  for (std::size_t offset = 0; offset < task.count; offset += kBlock) {
    const std::size_t n = task.count - offset < kBlock ? task.count - offset : kBlock;
    load_input<Format>(task, 0, offset, sums, n);
    for (std::size_t i = 1; i < task.input_count; ++i) {
      if constexpr (sizeof(Stored) == sizeof(Accumulator)) {
        const auto* input = static_cast<const Stored*>(task.inputs[i]) + offset;
        accumulate_native<Accumulator, Op>(sums, input, n);
      } else {
        accumulate<Format, Op>(task, i, offset, sums, n);
      }
    }
    if (task.op == ReduceOp::average) divide(sums, n, task.divisor);
    Format::store(sums, static_cast<Stored*>(task.outputs[0]) + offset, n);
    copy_to_others<Stored>(task, offset, n);
  }
}

template <class Format>
void reduce_format(const Task& task) {
  switch (task.op) {
    case ReduceOp::sum:
    case ReduceOp::average:
      return reduce_blocks<Format, Sum>(task);
    case ReduceOp::product:
      return reduce_blocks<Format, Product>(task);
    case ReduceOp::min:
      return reduce_blocks<Format, Min>(task);
    case ReduceOp::max:
      return reduce_blocks<Format, Max>(task);
    case ReduceOp::adasum:
      return;  // not elementwise: see check_elementwise
  }
}

// Booleans are bytes 0 and 1: "or" is their maximum, "and" their minimum.
void reduce_boolean(const Task& task) {
  if (task.op == ReduceOp::sum || task.op == ReduceOp::max)
    return reduce_blocks<Native<std::uint8_t>, Max>(task);
  return reduce_blocks<Native<std::uint8_t>, Min>(task);
}

constexpr KernelSet make_kernel_set(std::string_view name) {
  return {
      name,
      {reduce_format<Native<float>>, reduce_format<Native<double>>, reduce_format<Float16>,
       reduce_format<BFloat16>, reduce_format<Native<std::int8_t>>,
       reduce_format<Native<std::int16_t>>, reduce_format<Native<std::int32_t>>,
       reduce_format<Native<std::int64_t>>, reduce_format<Native<std::uint8_t>>, reduce_boolean}};
}

}  // namespace
}  // namespace sullae::reduction
