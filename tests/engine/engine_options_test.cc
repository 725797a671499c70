#include "engine/engine_options.h"

#include <gtest/gtest.h>

#include "support/environment.h"
#include "support/errors.h"

namespace sullae::engine::testing {
namespace {

using namespace sullae::testing;

EngineOptions with(const char* name, const char* value) {
  return EngineOptions::from(environment_of(name, value),
                             {.timeout = {std::chrono::seconds{77}, "test"}});
}

TEST(EngineOptions, ComeFromTheEnvironment) {
  EXPECT_EQ(with("SULLAE_CYCLE_TIME", "2.5").cycle_time, std::chrono::microseconds{2500});
  EXPECT_EQ(with("SULLAE_FUSION_THRESHOLD", "0").fusion_threshold, 0U);
  EXPECT_EQ(with("SULLAE_CACHE_CAPACITY", "5").cache_capacity, 5U);
  EXPECT_TRUE(with("SULLAE_AUTOTUNE", "1").autotune.on);
  EXPECT_EQ(with("SULLAE_AUTOTUNE_LOG", "f").autotune.log, "f");
  EXPECT_EQ(with("SULLAE_AUTOTUNE_WARMUP_SAMPLES", "0").autotune.warmup_samples, 0U);
  EXPECT_EQ(with("SULLAE_AUTOTUNE_STEPS_PER_SAMPLE", "3").autotune.steps_per_sample, 3U);
}

TEST(EngineOptions, AStallLastsAsLongAsAnyWaitUnlessItIsSaid) {
  EXPECT_EQ(with("", "").stall_timeout, std::chrono::seconds{77});
  EXPECT_EQ(with("SULLAE_STALL_TIMEOUT", "0").stall_timeout, std::chrono::seconds{0});
}

TEST(EngineOptions, ThatCannotBeAreRefused) {
  EXPECT_EQ(error_of([] { with("SULLAE_CYCLE_TIME", "0"); }),
            "SULLAE_CYCLE_TIME='0': expected a number of milliseconds from 0.01 to 1e8");
  EXPECT_TRUE(error_of([] {
                with("SULLAE_AUTOTUNE_STEPS_PER_SAMPLE", "0");
              }).starts_with("SULLAE_AUTOTUNE_STEPS_PER_SAMPLE: '0' is not an integer between 1 "));
}

}  // namespace
}  // namespace sullae::engine::testing
