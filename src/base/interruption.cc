#include "base/interruption.h"

#include <algorithm>
#include <utility>

namespace sullae {
namespace {

constexpr std::chrono::milliseconds kPeriod{100};

thread_local InterruptionCheck check_of_thread;

}  // namespace

Interruptible::Interruptible(InterruptionCheck check)
    : before_(std::exchange(check_of_thread, std::move(check))) {}

Interruptible::~Interruptible() { check_of_thread = std::move(before_); }

InterruptionCheck interruption_check() { return check_of_thread; }

std::chrono::milliseconds until_interruption(std::chrono::milliseconds remaining) {
  return check_of_thread ? std::min(remaining, kPeriod) : remaining;
}

void check_interruption() {
  const InterruptionCheck check = check_of_thread;  // which may set another one meanwhile
  if (check) check();
}

}  // namespace sullae
