// Scalar conversions between float32 and the two 16-bit floating-point types. The vector kernels
// have their own.
#pragma once

#include <cstdint>
#include <cstring>

namespace sullae {

inline float bits_to_float(std::uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

inline std::uint32_t float_to_bits(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

inline float bfloat16_to_float(std::uint16_t value) {
  return bits_to_float(static_cast<std::uint32_t>(value) << 16);
}

/// Rounds to nearest even; a NaN stays a (quiet) NaN.
inline std::uint16_t float_to_bfloat16(float value) {
  const std::uint32_t bits = float_to_bits(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return static_cast<std::uint16_t>((bits >> 16) | 0x0040U);
  return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

inline float float16_to_float(std::uint16_t value) {
  const std::uint32_t sign = static_cast<std::uint32_t>(value & 0x8000U) << 16;
  const std::uint32_t exponent = (value >> 10) & 0x1fU;
  const std::uint32_t mantissa = value & 0x3ffU;
  if (exponent == 0x1f) return bits_to_float(sign | 0x7f800000U | (mantissa << 13));
  if (exponent != 0) return bits_to_float(sign | ((exponent + 112) << 23) | (mantissa << 13));
  // Subnormal: mantissa · 2^-24 is exact in float32.
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24F;
  return bits_to_float(sign | float_to_bits(magnitude));
}

/// Rounds to nearest even; overflow becomes infinity, a NaN stays a (quiet) NaN.
inline std::uint16_t float_to_float16(float value) {
  const std::uint32_t bits = float_to_bits(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000U);
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  if (magnitude > 0x7f800000U) {
    return static_cast<std::uint16_t>(sign | 0x7e00U | ((magnitude >> 13) & 0x3ffU));
  }
  if (magnitude >= 0x47800000U) return static_cast<std::uint16_t>(sign | 0x7c00U);
  if (magnitude < 0x38800000U) {
    // The sum's last bits hold the subnormal, rounded by the floating-point unit itself.
    const float shifted = bits_to_float(magnitude) + 0.5F;
    return static_cast<std::uint16_t>(sign | (float_to_bits(shifted) - 0x3f000000U));
  }
  const std::uint32_t rounded = magnitude + 0xfffU + ((magnitude >> 13) & 1U) - (112U << 23);
  return static_cast<std::uint16_t>(sign | (rounded >> 13));
}

}  // namespace sullae
