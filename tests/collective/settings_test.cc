#include "collective/settings.h"

#include <gtest/gtest.h>

#include "support/environment.h"
#include "support/errors.h"

namespace sullae::testing {
namespace {

CollectiveSettings with(const char* name, const char* value) {
  return CollectiveSettings::from(environment_of(name, value));
}

TEST(CollectiveSettings, ComeFromTheEnvironment) {
  EXPECT_EQ(CollectiveSettings::from(empty_environment()).transport, "auto");
  EXPECT_EQ(with("SULLAE_TRANSPORT", "ucx").transport, "ucx");
  EXPECT_EQ(with("SULLAE_ALLREDUCE_ALGORITHM", "ring").allreduce_algorithm, "ring");
  EXPECT_TRUE(with("SULLAE_HIERARCHICAL_ADASUM", "1").hierarchical_adasum);
  EXPECT_TRUE(with("SULLAE_HIERARCHICAL_NCCL", "1").hierarchical_nccl);
  EXPECT_EQ(with("SULLAE_DEVICE_TRANSPORT", "host").device_transport, DeviceTransport::host);
  EXPECT_EQ(with("SULLAE_TIMEOUT", "3").waits.timeout.time, std::chrono::seconds{3});
}

TEST(CollectiveSettings, ThatCannotBeAreRefused) {
  EXPECT_TRUE(contains(error_of([] { with("SULLAE_TRANSPORT", "pigeon").check(); }),
                       "SULLAE_TRANSPORT='pigeon': expected one of auto, shm, ucx"));
  EXPECT_EQ(error_of([] { with("SULLAE_ALLREDUCE_ALGORITHM", "x").check(); }),
            "SULLAE_ALLREDUCE_ALGORITHM='x': expected one of auto, recursive_doubling, "
            "halving_doubling, ring");
  EXPECT_EQ(error_of([] { with("SULLAE_DEVICE_TRANSPORT", "x"); }),
            "SULLAE_DEVICE_TRANSPORT='x': expected one of auto, nccl, host");
}

}  // namespace
}  // namespace sullae::testing
