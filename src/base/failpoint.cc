#include "base/failpoint.h"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>

namespace sullae {

void failpoint(std::string_view name) {
  const char* const asked = std::getenv("SULLAE_CRASH_AT");
  if (asked == nullptr) return;
  const std::string_view text = asked;
  const auto colon = std::min(text.find(':'), text.size());
  if (text.substr(0, colon) != name) return;
  static std::atomic<int> times = 0;
  const int wanted = colon < text.size() ? std::atoi(asked + colon + 1) : 1;
  if (++times == wanted) std::raise(SIGKILL);
}

}  // namespace sullae
