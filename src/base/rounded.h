// Measured figures for files that people read too.
#pragma once

#include <fmt/format.h>

#include <cstdlib>

namespace sullae {

/// `value` with nine significant digits, which is more than any clock gives: 2.441635 and
/// not 2.4416350000000002.
inline double rounded(double value) {
  return std::strtod(fmt::format("{:.9g}", value).c_str(), nullptr);
}

}  // namespace sullae
