// What of the engine can be changed while it runs.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace sullae::engine {

struct Settings {
  std::size_t fusion_threshold = 0;  ///< bytes
  std::chrono::microseconds cycle_time{};
  std::string allreduce_algorithm;  ///< one of the communicator's

  bool operator==(const Settings&) const = default;
};

}  // namespace sullae::engine
