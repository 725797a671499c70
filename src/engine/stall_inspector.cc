#include "engine/stall_inspector.h"

#include <fmt/format.h>

#include "base/log.h"

namespace sullae::engine {

std::vector<std::string> StallInspector::inspect(const std::vector<Unfinished>& unfinished) {
  const auto now = std::chrono::steady_clock::now();
  std::set<std::string> still_waiting;
  std::vector<std::string> given_up;
  for (const Unfinished& one : unfinished) {
    const auto waited = now - one.since;
    const std::string& name = one.request->name;
    if (timeout_.count() > 0 && waited > timeout_) {
      given_up.push_back(name);
    } else if (warning_.count() > 0 && waited > warning_) {
      still_waiting.insert(name);
      if (warned_.contains(name)) continue;
      log::warning("'{}' ({}) has waited {:.3g} s for ranks {} (ranks {} have submitted it)", name,
                   one.request->describe(), std::chrono::duration<double>(waited).count(),
                   fmt::join(one.missing, ", "), fmt::join(one.submitted, ", "));
    }
  }
  warned_ = std::move(still_waiting);
  return given_up;
}

}  // namespace sullae::engine
