// What a device of this machine is called, as libtorch has it.
#pragma once

#include <string_view>

#include "base/number.h"

namespace sullae {

inline constexpr const char* kDeviceNames = "cpu, cuda or cuda:N";

/// "cpu", "cuda", or "cuda:" and the number of a GPU.
inline bool is_device_name(std::string_view name) {
  constexpr std::string_view kNumbered = "cuda:";
  constexpr int kMost = 99;
  if (name == "cpu" || name == "cuda") return true;
  if (!name.starts_with(kNumbered)) return false;
  const std::string_view digits = name.substr(kNumbered.size());
  const int index = number_in<int>(digits).value_or(-1);
  return index >= 0 && index <= kMost && (digits.front() != '0' || digits.size() == 1);
}

}  // namespace sullae
