#include "transport/settings.h"

#include <gtest/gtest.h>

#include "support/environment.h"
#include "support/errors.h"

namespace sullae::testing {
namespace {

TEST(TransportSettings, HaveDefaults) {
  const auto waits = WaitSettings::from(empty_environment());
  EXPECT_EQ(waits.timeout.time, std::chrono::minutes{10});
  EXPECT_EQ(waits.stall_warning, std::chrono::seconds{10});
  EXPECT_EQ(RendezvousSettings::from(empty_environment()).timeout.time, std::chrono::minutes{2});
}

TEST(TransportSettings, ComeFromTheEnvironment) {
  EXPECT_EQ(WaitSettings::from(environment_of("SULLAE_TIMEOUT", "2.5")).timeout.time,
            std::chrono::milliseconds{2500});
  EXPECT_EQ(WaitSettings::from(environment_of("SULLAE_STALL_WARNING", "0")).stall_warning,
            std::chrono::milliseconds{0});
  EXPECT_EQ(RendezvousSettings::from(environment_of("SULLAE_RENDEZVOUS_TIMEOUT", "7")).timeout.time,
            std::chrono::seconds{7});
  EXPECT_EQ(RendezvousSettings::from(environment_of("SULLAE_HOST_ID", "h")).host_id, "h");
  EXPECT_EQ(RendezvousSettings::from(environment_of("SULLAE_JOB_SECRET", "s")).job_secret, "s");
}

TEST(TransportSettings, ThatCannotBeAreRefused) {
  EXPECT_EQ(error_of([] { WaitSettings::from(environment_of("SULLAE_TIMEOUT", "0")); }),
            "SULLAE_TIMEOUT='0': expected a positive number of seconds");
  for (const std::string& secret : {std::string("a\nb"), std::string(257, 'x')}) {
    EXPECT_EQ(
        error_of([&] { RendezvousSettings::from(environment_of("SULLAE_JOB_SECRET", secret)); }),
        "SULLAE_JOB_SECRET: expected one line of at most 256 bytes");
  }
}

}  // namespace
}  // namespace sullae::testing
