#include "transport/topology.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>

#include "sullae/error.h"
#include "transport/store/store_server.h"

namespace sullae::testing {
namespace {

TEST(Topology, NumbersHostsAndLocalRanks) {
  const auto topology = Topology::from_hosts(3, {"x", "y", "x", "y", "z"});
  EXPECT_EQ(topology.hosts, (std::vector<std::vector<int>>{{0, 2}, {1, 3}, {4}}));
  EXPECT_EQ(topology.local_rank(), 1);
  EXPECT_EQ(topology.local_size(), 2);
  EXPECT_EQ(topology.cross_rank(), 1);
  EXPECT_EQ(topology.cross_size(), 3);
}

TEST(Topology, IsHomogeneousWhereAllHostsHaveAsManyRanks) {
  const std::vector<std::string> uneven{"x", "x", "y", "y", "y", "y", "z", "z", "z", "z", "z", "z"};
  for (int rank = 0; rank < 12; ++rank)  // also where a host has as many as the average
    EXPECT_FALSE(Topology::from_hosts(rank, uneven).is_homogeneous());
  EXPECT_TRUE(Topology::from_hosts(1, {"x", "y", "y", "x"}).is_homogeneous());
  EXPECT_TRUE(Topology().is_homogeneous());
}

std::string discover_alone(int rank, int size, int times = 1) {
  const auto address = StoreAddress::parse("unix:sullae-topology-" + std::to_string(::getpid()));
  const StoreServer server(address);
  const Deadline patience(std::chrono::seconds{20}, "the test's patience");
  const Deadline limit(std::chrono::milliseconds{200}, "SULLAE_RENDEZVOUS_TIMEOUT");
  std::string error;
  for (int i = 0; i < times; ++i) {
    try {
      Store store(address, patience);
      Topology::discover(store, rank, size, "here", "A=1\n", limit);
    } catch (const Error& caught) {
      error = caught.what();
    }
  }
  return error;
}

TEST(Topology, NamesTheRankThatDoesNotCome) {
  EXPECT_NE(discover_alone(0, 2).find(
                "waited for rank 1, which did not come within 0.2 s (SULLAE_RENDEZVOUS_TIMEOUT)"),
            std::string::npos);
}

TEST(Topology, RefusesTwoProcessesOfOneRank) {
  EXPECT_NE(discover_alone(0, 1, 2).find("two processes both say that they are rank 0 of 1"),
            std::string::npos);
}

TEST(Topology, RefusesSettingsThatDiffer) {
  const auto address = StoreAddress::parse("unix:sullae-topology-" + std::to_string(::getpid()));
  const StoreServer server(address);
  const Deadline patience(std::chrono::seconds{20}, "the test's patience");
  const auto errors_of = [&](const std::string& scope, const std::vector<std::string>& settings) {
    std::vector<std::string> errors(settings.size());
    std::vector<std::thread> ranks;
    for (std::size_t rank = 0; rank < settings.size(); ++rank) {
      ranks.emplace_back([&, rank] {
        Store store(address, patience, scope);
        const int size = static_cast<int>(settings.size());
        try {
          const auto topology = Topology::discover(store, static_cast<int>(rank), size, "host\n\n1",
                                                   settings[rank], patience);
          EXPECT_EQ(topology.cross_size(), 1);
        } catch (const InputError& error) {
          errors[rank] = error.what();
        }
      });
    }
    for (auto& rank : ranks) rank.join();
    return errors;
  };
  for (const auto& error : errors_of("one/", {"A=1\nB=2\n", "A=1\nB=2\n", "A=1\nB=3\n"}))
    EXPECT_EQ(error, "rank 0 has B=2, and rank 2 has B=3: expected the same on all ranks");
  for (const auto& settings : {std::string("A=1\n"), std::string()}) {
    for (const auto& error : errors_of("two" + settings, {settings, settings}))
      EXPECT_EQ(error, "");
  }
  for (const auto& error : errors_of("three/", {"A=1\n", "A=1\nB=2\n"}))
    EXPECT_EQ(error,
              "rank 0 has fewer settings, and rank 1 has B=2: expected the same on all ranks");
}

}  // namespace
}  // namespace sullae::testing
