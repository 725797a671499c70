#include "engine/prompt_waits.h"

#include <gtest/gtest.h>

namespace sullae {
namespace {

const PromptWaits::Clock::time_point now = PromptWaits::Clock::now();

bool submit_and_wait(PromptWaits& waits) {
  waits.submitted(true, now);
  return waits.waited(now + std::chrono::microseconds(3));
}

TEST(PromptWaits, AreExpectedAfterEightInARow) {
  PromptWaits waits;
  for (int i = 0; i < 7; ++i) {
    EXPECT_FALSE(submit_and_wait(waits));
    EXPECT_FALSE(waits.expected());
  }
  EXPECT_TRUE(submit_and_wait(waits));  // said once, to whoever sleeps
  EXPECT_TRUE(waits.expected());
  EXPECT_FALSE(submit_and_wait(waits));
  EXPECT_TRUE(waits.expected());
  waits.forget();
  EXPECT_FALSE(waits.expected());
}

TEST(PromptWaits, AreNotExpectedOfWhoSubmitsTheNextOneBefore) {
  PromptWaits waits;
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(waits.submitted(true, now));
    EXPECT_TRUE(waits.submitted(false, now));
    EXPECT_FALSE(waits.waited(now));
    EXPECT_FALSE(waits.expected());
  }
  for (int i = 0; i < 8; ++i) submit_and_wait(waits);
  EXPECT_TRUE(waits.expected());
  EXPECT_FALSE(waits.submitted(true, now));
  EXPECT_TRUE(waits.expected());  // it may be waited for yet
  EXPECT_TRUE(waits.submitted(false, now));
  EXPECT_FALSE(waits.expected());
}

TEST(PromptWaits, AreNotExpectedOfWhoComputesBefore) {
  PromptWaits waits;
  for (int i = 0; i < 8; ++i) submit_and_wait(waits);
  waits.submitted(true, now);
  EXPECT_FALSE(waits.waited(now + std::chrono::milliseconds(1)));
  EXPECT_FALSE(waits.expected());
}

TEST(PromptWaits, WhatWasWaitedForCountsOnce) {
  PromptWaits waits;
  waits.submitted(true, now);
  for (int i = 0; i < 20; ++i) EXPECT_FALSE(waits.waited(now));
  EXPECT_FALSE(waits.expected());
}

}  // namespace
}  // namespace sullae
