// Waits for what another thread does.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace sullae::testing {

/// Waits, for as long as a test may take, until `condition()` holds; fails the test if it never
/// does.
template <class Condition>
void wait_until(const Condition& condition) {
  using Clock = std::chrono::steady_clock;
  const auto limit = Clock::now() + std::chrono::seconds(60);
  while (!condition()) {
    ASSERT_LT(Clock::now(), limit);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

}  // namespace sullae::testing
