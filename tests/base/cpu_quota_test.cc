#include "base/cpu_quota.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "support/temporary_directory.h"

namespace sullae::testing {
namespace {

class CpuQuota : public ::testing::Test {
 protected:
  void put(const std::string& file, const std::string& text) {
    std::filesystem::create_directories((folder_.path() / file).parent_path());
    std::ofstream(folder_.path() / file) << text;
  }
  std::optional<int> quota() { return cpu_quota(folder_.path() / "cgroup", folder_.path() / "fs"); }

  TemporaryDirectory folder_;
};

TEST_F(CpuQuota, IsTheLeastOfAGroupAndThoseThatItIsIn) {
  put("cgroup", "0::/pod/container\n");
  EXPECT_EQ(quota(), std::nullopt);
  put("fs/pod/container/cpu.max", "max 100000\n");
  EXPECT_EQ(quota(), std::nullopt);
  put("fs/pod/cpu.max", "350000 100000\n");
  EXPECT_EQ(quota(), 4);
  put("fs/pod/container/cpu.max", "20000 100000\n");
  EXPECT_EQ(quota(), 1);
  put("fs/cpu.max", "1000 100000\n");
  EXPECT_EQ(quota(), 1);
}

TEST_F(CpuQuota, IsThatOfVersionOneToo) {
  put("cgroup", "9:name=systemd:/\n4:cpu,cpuacct:/docker/a\n0::/\n");
  put("fs/cpu/docker/a/cpu.cfs_period_us", "100000\n");
  put("fs/cpu/docker/a/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(quota(), std::nullopt);
  put("fs/cpu/docker/a/cpu.cfs_quota_us", "200000\n");
  EXPECT_EQ(quota(), 2);
}

TEST_F(CpuQuota, IsNoneWhereNothingIsSaid) { EXPECT_EQ(quota(), std::nullopt); }

}  // namespace
}  // namespace sullae::testing
