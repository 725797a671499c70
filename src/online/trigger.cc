#include "online/trigger.h"

namespace sullae::online {

std::string trigger_of(const Waiting& waiting, const OnlineConfig& config, std::int64_t now) {
  if (waiting.called) return "call";
  if (waiting.examples >= config.min_examples) return "count";
  const auto max_age = std::chrono::milliseconds(config.max_age).count();
  if (waiting.examples > 0 && max_age > 0 && now - waiting.oldest >= max_age) return "age";
  return {};
}

}  // namespace sullae::online
