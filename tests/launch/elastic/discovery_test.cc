// Hosts that a script names.
#include "launch/elastic/discovery.h"

#include <gtest/gtest.h>

#include "support/errors.h"
#include "support/wait_until.h"

namespace sullae::elastic {
namespace {

using testing::contains;
using testing::error_of;
using testing::wait_until;

TEST(Discovery, TakesWhatTheScriptPrints) {
  Discovery discovery("echo a:2; echo b:1");
  const auto hosts = discovery.first().hosts;
  ASSERT_EQ(hosts.size(), 2U);
  EXPECT_EQ(hosts[0].name, "a");
  EXPECT_EQ(hosts[0].slots, 2);
  EXPECT_EQ(hosts[1].name, "b");
}

TEST(Discovery, WaitsForAScriptThatHasClosedItsOutput) {
  EXPECT_TRUE(contains(error_of([] { Discovery("echo a:1; exec >&-; sleep 0.1; exit 3").first(); }),
                       "ended with exit code 3"));
}

// Whoever asks each turn is never kept.
TEST(Discovery, NoTurnWaitsForTheScript) {
  Discovery discovery("echo a:1; exec >&-; exec sleep 0.05");
  ASSERT_EQ(discovery.first().hosts.size(), 1U);
  // Those that it names again are no change.
  wait_until([&] {
    EXPECT_FALSE(discovery.turn().has_value());
    return discovery.fd() >= 0;  // it runs again
  });
  wait_until([&] {
    EXPECT_FALSE(discovery.turn().has_value());
    return discovery.fd() < 0;
  });
}

TEST(Discovery, WhoPrintsWithoutEndIsStopped) {
  EXPECT_TRUE(contains(error_of([] { Discovery("yes localhost").first(); }),
                       "'yes localhost' has printed more than 1 MiB: expected a host a line"));
}

TEST(Discovery, OfNoHostsIsNone) {
  EXPECT_TRUE(contains(error_of([] { Discovery("true").first(); }), "'true' names no host"));
}

}  // namespace
}  // namespace sullae::elastic
