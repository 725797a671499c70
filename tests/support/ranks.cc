#include "support/ranks.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <thread>

#include "launch/environment.h"
#include "transport/store/store_server.h"

namespace sullae::testing {
namespace {

std::string unique_store_name() {
  static std::atomic<int> next{0};
  return "sullae-test-" + std::to_string(::getpid()) + '-' + std::to_string(next++);
}

std::string host_of(const RanksOptions& options, int rank) {
  int host = 0;
  for (const int ranks : options.hosts) {
    if (rank < ranks) break;
    rank -= ranks;
    ++host;
  }
  return "host-" + std::to_string(host);
}

World& own_world() {
  static World world = World::create(detect_world(process_environment()));
  return world;
}

}  // namespace

bool ranks_are_processes() { return std::getenv("SULLAE_TEST_HERE") != nullptr; }

std::vector<std::string> run_ranks_catching(const RanksOptions& options,
                                            const std::function<void(World&)>& body) {
  if (ranks_are_processes()) {
    body(own_world());
    return {};
  }
  const StoreAddress address = StoreAddress::parse("unix:" + unique_store_name());
  const StoreServer server(address);
  std::vector<std::string> errors(static_cast<std::size_t>(options.size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < options.size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        World world = World::create({.rank = rank,
                                     .size = options.size,
                                     .store = address.to_string(),
                                     .transport = options.transport,
                                     .host_id = host_of(options, rank),
                                     .timeout = options.timeout});
        body(world);
      } catch (const std::exception& error) {
        errors[static_cast<std::size_t>(rank)] = error.what();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  return errors;
}

void run_ranks(const RanksOptions& options, const std::function<void(World&)>& body) {
  const auto errors = run_ranks_catching(options, body);
  for (std::size_t rank = 0; rank < errors.size(); ++rank)
    EXPECT_EQ(errors[rank], "") << "rank " << rank;
}

void PrintTo(const Setting& setting, std::ostream* out) { *out << setting.name; }

std::vector<Setting> every_setting() {
  if (ranks_are_processes()) return {{"here", {}}};
  std::vector<Setting> all;
  for (int size = 1; size <= 5; ++size) {
    all.push_back({"shm_" + std::to_string(size), {.size = size}});
    if (size > 1) {
      all.push_back({"ucx_" + std::to_string(size), {.size = size, .transport = "ucx"}});
    }
  }
  all.push_back({"hosts_2_2", {.size = 4, .hosts = {2, 2}}});
  all.push_back({"hosts_1_2", {.size = 3, .hosts = {1, 2}}});
  all.push_back({"hosts_3_1_1", {.size = 5, .hosts = {3, 1, 1}}});
  all.push_back({"hosts_1_1", {.size = 2, .hosts = {1, 1}}});
  return all;
}

}  // namespace sullae::testing
