// The time as records hold it.
#pragma once

#include <chrono>
#include <cstdint>

namespace sullae::online {

/// Milliseconds since 1970, UTC.
inline std::int64_t milliseconds_now() {
  using namespace std::chrono;
  return duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count();
}

}  // namespace sullae::online
