#include "base/interruption.h"

#include <algorithm>

namespace sullae {
namespace {

constexpr std::chrono::milliseconds kPeriod{100};

thread_local InterruptionCheck check_of_thread = nullptr;

}  // namespace

Interruptible::Interruptible(InterruptionCheck check) : before_(check_of_thread) {
  check_of_thread = check;
}

Interruptible::~Interruptible() { check_of_thread = before_; }

InterruptionCheck interruption_check() { return check_of_thread; }

std::chrono::milliseconds until_interruption(std::chrono::milliseconds remaining) {
  return check_of_thread == nullptr ? remaining : std::min(remaining, kPeriod);
}

void check_interruption() {
  if (check_of_thread != nullptr) check_of_thread();
}

}  // namespace sullae
