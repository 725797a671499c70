#include "launch/elastic/host_list.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "support/errors.h"
#include "support/temporary_directory.h"
#include "support/variable.h"
#include "support/wait_until.h"

namespace sullae::elastic {
namespace {

using testing::contains;
using testing::error_of;

class HostListTest : public ::testing::Test {
 protected:
  testing::TemporaryDirectory directory_;
  testing::Variable runtime_{"XDG_RUNTIME_DIR", directory_.path().c_str()};
  std::string job_ = std::to_string(::getpid());
};

TEST_F(HostListTest, IsThereForAsLongAsTheJob) {
  EXPECT_TRUE(jobs_with_host_lists().empty());
  {
    HostList list({{"a", 2}, {"b", 1}});
    EXPECT_EQ(jobs_with_host_lists(), std::vector<std::string>{job_});
    EXPECT_EQ(hosts_of_job(job_), (std::vector<Host>{{"a", 2}, {"b", 1}}));
    EXPECT_EQ(list.first().hosts, hosts_of_job(job_));
  }
  EXPECT_TRUE(jobs_with_host_lists().empty());
  EXPECT_TRUE(
      contains(error_of([&] { hosts_of_job(job_); }),
               "there is no job " + job_ + " here whose hosts can be changed: those are none"));
}

TEST_F(HostListTest, TellsWhatHasChanged) {
  HostList list({{"a", 2}, {"b", 1}});
  EXPECT_FALSE(list.turn());
  add_hosts(job_, {{"c", 3}});
  remove_hosts(job_, {"a"});
  std::optional<Supply> supply;
  testing::wait_until([&] {
    supply = list.turn();
    return supply.has_value();
  });
  EXPECT_EQ(supply->hosts, (std::vector<Host>{{"b", 1}, {"c", 3}}));
  EXPECT_FALSE(list.turn());
}

TEST_F(HostListTest, SaysWhatCannotBe) {
  const HostList list({{"a", 2}});
  EXPECT_EQ(error_of([&] {
              add_hosts(job_, {{"b", 1}, {"a", 1}});
            }),
            "a is one of job " + job_ + "'s hosts already");
  EXPECT_EQ(error_of([&] { remove_hosts(job_, {"c"}); }), "c is none of job " + job_ + "'s hosts");
  EXPECT_EQ(hosts_of_job(job_), (std::vector<Host>{{"a", 2}})) << "half a change is none";
  EXPECT_TRUE(contains(error_of([&] { add_hosts("x", {}); }), "those are " + job_));
}

TEST_F(HostListTest, WhatALauncherLeftThatWasKilledGoes) {
  std::filesystem::create_directory(directory_.path() / "sullae");
  std::filesystem::permissions(directory_.path() / "sullae", std::filesystem::perms::owner_all);
  std::ofstream(directory_.path() / "sullae" / "999999999.hosts") << "a slots=1\n";
  EXPECT_TRUE(jobs_with_host_lists().empty());
  EXPECT_TRUE(std::filesystem::is_empty(directory_.path() / "sullae"));
}

TEST_F(HostListTest, AFolderThatOthersCanWriteToIsRefused) {
  std::filesystem::create_directory(directory_.path() / "sullae");
  std::filesystem::permissions(directory_.path() / "sullae", std::filesystem::perms::all);
  EXPECT_TRUE(
      contains(error_of([] { HostList list({}); }), "expected a folder that is this user's alone"));
}

TEST_F(HostListTest, ManyChangesAtOnceAreAllMade) {
  const HostList list({});
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&, i] { add_hosts(job_, {{"n" + std::to_string(i), 1}}); });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(hosts_of_job(job_).size(), 8U);
}

}  // namespace
}  // namespace sullae::elastic
