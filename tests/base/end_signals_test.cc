#include "base/end_signals.h"

#include <gtest/gtest.h>

#include <thread>

namespace sullae::testing {
namespace {

TEST(EndSignals, SayWhichCameFirstAndPutBackWhatWasThere) {
  ::signal(SIGTERM, SIG_IGN);
  const auto own = [](int) {
  };
  ::signal(SIGINT, own);
  {
    const EndSignals signals(EndSignals::Next::ends_at_once);
    EXPECT_FALSE(signals.come_within(std::chrono::milliseconds{0}));
    ::raise(SIGTERM);
    EXPECT_EQ(signals.signal(), 0) << "it was started to ignore it";
    ::raise(SIGINT);
    ::raise(SIGINT);
    EXPECT_TRUE(signals.come_within(std::chrono::milliseconds{0}));
    EXPECT_EQ(signals.signal(), SIGINT);
  }
  EXPECT_EQ(::signal(SIGINT, SIG_DFL), static_cast<void (*)(int)>(own));
  EXPECT_EQ(::signal(SIGTERM, SIG_DFL), SIG_IGN);
}

TEST(EndSignals, ALaterOneEndsTheProgramWhereThatIsWanted) {
  const auto twice = [](EndSignals::Next next) {
    const EndSignals signals(next);
    ::raise(SIGTERM);
    std::this_thread::sleep_for(EndSignals::kSameRequest + std::chrono::milliseconds{50});
    ::raise(SIGINT);
    std::exit(7);
  };
  EXPECT_EXIT(twice(EndSignals::Next::ends_at_once), ::testing::KilledBySignal(SIGINT), "");
  EXPECT_EXIT(twice(EndSignals::Next::waits), ::testing::ExitedWithCode(7), "");
}

}  // namespace
}  // namespace sullae::testing
