#include "engine/engine_options.h"

#include <fmt/format.h>

namespace sullae::engine {

EngineOptions EngineOptions::from(const Environment& environment, const WaitSettings& waits) {
  EngineOptions options{.stall_warning = waits.stall_warning,
                        .stall_timeout = waits.timeout.time,
                        .autotune = AutotuneOptions::from(environment)};
  read_milliseconds(environment, "SULLAE_CYCLE_TIME", options.cycle_time);
  read_count(environment, "SULLAE_FUSION_THRESHOLD", options.fusion_threshold);
  read_count(environment, "SULLAE_CACHE_CAPACITY", options.cache_capacity);
  read_seconds(environment, "SULLAE_STALL_TIMEOUT", ZeroMeans::no_limit, options.stall_timeout);
  return options;
}

std::string EngineOptions::of_all_ranks() const {
  return fmt::format("SULLAE_FUSION_THRESHOLD={}\nSULLAE_CACHE_CAPACITY={}\n", fusion_threshold,
                     cache_capacity);
}

}  // namespace sullae::engine
