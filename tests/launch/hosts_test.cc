#include "launch/hosts.h"

#include <gtest/gtest.h>

#include <fstream>

#include "launch/binding.h"
#include "sullae/error.h"
#include "support/errors.h"
#include "support/temporary_directory.h"

namespace sullae::testing {
namespace {

TEST(Hosts, AreParsed) {
  EXPECT_EQ(parse_hosts("node1:4,node2"), (std::vector<Host>{{"node1", 4}, {"node2", 1}}));
  EXPECT_EQ(parse_hosts("[2001:db8::1]:4,2001:db8::2,[::1]"),
            (std::vector<Host>{{"2001:db8::1", 4}, {"2001:db8::2", 1}, {"::1", 1}}));
  for (const char* text :
       {"[::1", "[::1]:", "[]", "[::1]4", "[::1]x:4", "node1:4:2", "", "node1:", "node1:0",
        "node1:x", "node1,,node2", "-oProxyCommand=evil:2", "a b:2", "$(x):1"}) {
    EXPECT_THROW(parse_hosts(text), InputError) << text;
  }
}

TEST(Hosts, AreReadFromAFile) {
  TemporaryDirectory directory;
  const auto file = directory.path() / "hosts";
  std::ofstream(file) << "# cluster\nnode1 slots=4\n\nnode2:2   # two\nnode3\n";
  EXPECT_EQ(read_hostfile(file), (std::vector<Host>{{"node1", 4}, {"node2", 2}, {"node3", 1}}));
  std::ofstream(file) << "node1 slots=4\nnode2 slits=4\n";
  EXPECT_NE(error_of([&] { read_hostfile(file); }).find("hosts, line 2: 'slits=4' is not known"),
            std::string::npos);
  std::ofstream(file) << "# nothing\n";
  EXPECT_NE(error_of([&] { read_hostfile(file); }).find("names no host"), std::string::npos);
  EXPECT_NE(error_of([&] { read_hostfile(directory.path() / "none"); }).find("cannot be read"),
            std::string::npos);
}

TEST(Placement, FillsHostsInOrder) {
  const auto placements = place_ranks({{"a", 2}, {"b", 3}, {"c", 1}}, 4);
  ASSERT_EQ(placements.size(), 2U);
  EXPECT_EQ(placements[0].ranks, (std::vector<int>{0, 1}));
  EXPECT_EQ(placements[1].ranks, (std::vector<int>{2, 3}));
}

TEST(Placement, JoinsAHostThatIsNamedTwice) {
  const auto placements = place_ranks({{"a", 1}, {"b", 1}, {"a", 1}}, 3);
  ASSERT_EQ(placements.size(), 2U);
  EXPECT_EQ(placements[0].ranks, (std::vector<int>{0, 2}));
}

TEST(Placement, RefusesMoreRanksThanSlots) {
  EXPECT_NE(error_of([] {
              place_ranks({{"a", 2}, {"b", 1}}, 4);
            }).find("-np asks for 4 ranks, but the hosts have 3 slots (a:2, b:1)"),
            std::string::npos);
}

TEST(Binding, DividesProcessors) {
  const auto two = divide_cpus({0, 1, 2, 3}, 4, 2, 0);
  EXPECT_EQ(two[0].cpus, (std::vector<int>{0, 1}));
  EXPECT_EQ(two[1].cpus, (std::vector<int>{2, 3}));
  EXPECT_EQ(two[1].threads, 2);
  const auto one_each = divide_cpus({4, 6, 7}, 3, 2, 1);
  EXPECT_EQ(one_each[1].cpus, (std::vector<int>{6}));
  const auto crowded = divide_cpus({0, 1}, 2, 5, 0);
  EXPECT_TRUE(crowded[4].cpus.empty());
  EXPECT_EQ(crowded[4].threads, 1);
  EXPECT_TRUE(divide_cpus({0, 1}, 2, 2, 2)[0].cpus.empty());
  // A container's quota.
  const auto limited = divide_cpus({0, 1, 2, 3, 4, 5, 6, 7}, 4, 2, 0);
  EXPECT_TRUE(limited[0].cpus.empty());
  EXPECT_EQ(limited[1].threads, 2);
}

}  // namespace
}  // namespace sullae::testing
