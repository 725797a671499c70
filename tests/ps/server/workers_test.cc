// Workers that come, leave, and die.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "ps/server/clients.h"
#include "support/errors.h"

namespace sullae::testing {
namespace {

using ps::ClientOptions;
using ps::Rule;
using ps::SliceClient;

// The other is a process that was killed: nothing is heard of it, not even that it leaves.
TEST(ParameterServer, WaitsNoMoreForAWorkerOfWhichNothingIsHeard) {
  RunningServers servers(1, {.workers = 2, .lease = std::chrono::milliseconds{1500}});
  zmq::context_t context;
  zmq::socket_t dead(context, zmq::socket_type::dealer);
  dead.set(zmq::sockopt::linger, 0);
  dead.connect(servers.endpoints()[0]);
  const nlohmann::json said{
      {"secret", ""},
      {"group", "optimizer"},
      {"rule", to_json(Rule{})},
      {"slices", {{{"id", 0}, {"ranges", {3}}}}},
  };
  ps::send_message(dead,
                   {.kind = ps::Kind::hello,
                    .worker = 1,
                    .group = ps::group_of("optimizer", ""),
                    .incarnation = 5},
                   ps::message_of(said.dump()));
  zmq::message_t welcome;
  ASSERT_TRUE(dead.recv(welcome));

  SliceClient client(options_of(servers, 0), kSlices, Rule{});
  client.start();
  for (int step = 0; step < 3; ++step) push_ones(client);
  EXPECT_EQ(values_of(client), std::vector<float>(3, -3));
}

TEST(ParameterServer, WaitsNoMoreForAWorkerThatLeaves) {
  RunningServers servers(1, {.workers = 2});
  auto other = std::make_unique<SliceClient>(options_of(servers, 1), kSlices, Rule{});
  SliceClient client(options_of(servers, 0), kSlices, Rule{});
  client.start();
  other.reset();
  push_ones(client);
  EXPECT_EQ(values_of(client), std::vector<float>(3, -1));
}

TEST(ParameterServer, LetsAWorkerInThatComesLater) {
  RunningServers servers(1, {.workers = 1, .staleness = 2});
  SliceClient client(options_of(servers, 0), kSlices, Rule{});
  client.start();
  for (int step = 0; step < 10; ++step) push_ones(client);
  SliceClient late(options_of(servers, 7), kSlices, Rule{});
  late.start();
  EXPECT_EQ(values_of(late), std::vector<float>(3, -10));
  push_ones(late);
  push_ones(client);
  EXPECT_EQ(values_of(client), std::vector<float>(3, -12));
  EXPECT_EQ(client.delays().most_updates, 1);
}

// Whatever moment it is at each of the servers.
TEST(ParameterServer, LetsAWorkerInThatComesLaterToSeveralServers) {
  for (const int staleness : {0, 1}) {
    RunningServers servers(3, {.workers = 2, .staleness = staleness});
    std::atomic<bool> has_come = false;
    const auto work = [&](int worker) {
      SliceClient client(options_of(servers, worker), ps::place({70000}, 3), Rule{});
      client.start();
      for (int left = 50; left > 0; left -= has_come ? 1 : 0) {
        client.push_pull(1);
        if (worker == 2) has_come = true;
      }
    };
    std::vector<std::jthread> threads;
    threads.emplace_back([&] { work(0); });
    threads.emplace_back([&] { work(1); });
    std::this_thread::sleep_for(std::chrono::milliseconds{100});
    work(2);
  }
}

// Were it let in, the two would wait for it at the table before it comes to the optimizer, or it
// for them.
TEST(ParameterServer, RefusesAWorkerThatComesLaterToSeveralThings) {
  for (const int staleness : {0, 4, -1}) {
    RunningServers servers(1, {.workers = 1, .staleness = staleness});
    auto options = options_of(servers, 0);
    SliceClient dense(options, kSlices, Rule{});
    options.name = "words";
    ps::TableClient words(options, kZeros, Rule{});
    options.worker = 1;
    const auto error = error_of([&] { ps::TableClient(options, kZeros, Rule{}); });
    if (staleness == -1) {
      EXPECT_EQ(error, "nothing was thrown");
      continue;
    }
    EXPECT_TRUE(contains(error,
                         "refuses worker 1: it comes when the others have begun, and they "
                         "step several things here ("))
        << error;
    EXPECT_TRUE(contains(error, "'words'")) << error;
  }
}

// One that was expected, has failed, and is not waited for any more.
TEST(ParameterServer, RefusesAWorkerThatComesBackToSeveralThings) {
  RunningServers servers(1, {.workers = 2});
  const auto begin = [&](int worker, const auto& act) {
    auto options = options_of(servers, worker);
    SliceClient dense(options, kSlices, Rule{});
    options.name = "words";
    ps::TableClient words(options, kZeros, Rule{});
    act();
  };
  begin(0, [&] {
    begin(1, [] {});
    begin(1, [] {});  // who leaves in peace may come back
    EXPECT_EQ(error_of([&] { begin(1, [] { throw Error("it fails"); }); }), "it fails");
    EXPECT_TRUE(contains(error_of([&] { begin(1, [] {}); }),
                         "refuses worker 1: it comes when the others have begun, and they step "
                         "several things here ("));
  });
  begin(1, [] {});  // the first, when all have left
}

// Who has left one thing, and whoever else has, may begin another, and is waited for there.
TEST(ParameterServer, LetsWorkersBeginOneThingAfterTheOther) {
  RunningServers servers(2, {.workers = 2});
  const auto work = [&](int worker) {
    for (const char* name : {"first", "second", "first", "third"}) {
      auto options = options_of(servers, worker);
      options.name = name;
      ps::TableClient table(options, kZeros, Rule{});
      const float before = rows_of(table, {1})[0];
      for (int step = 1; step <= 3; ++step) {
        push_ones(table, {1});
        EXPECT_EQ(rows_of(table, {1})[0], before - static_cast<float>(step)) << name;
      }
    }
  };
  std::jthread other([&] { work(1); });
  work(0);
}

// The one that comes first would be alone, and go on before the other comes.
TEST(ParameterServer, WaitsForWhoHasLeftWhenAllCameBack) {
  for (const int staleness : {0, 2}) {
    RunningServers servers(2, {.workers = 2, .staleness = staleness});
    const auto once = [&](int worker) {
      ps::TableClient table(options_of(servers, worker), kZeros, Rule{});
      for (int step = 0; step < 3; ++step) push_ones(table, {1});
    };
    const auto both = [&](std::chrono::milliseconds delay) {
      std::jthread other([&] {
        std::this_thread::sleep_for(delay);
        once(1);
      });
      once(0);
    };
    both({});
    // Time enough to do all alone.
    both(std::chrono::milliseconds{200});
    ps::TableClient table(options_of(servers, 0), kZeros, Rule{});
    EXPECT_EQ(rows_of(table, {1})[0], staleness == 0 ? -6 : -12);
  }
}

// A word that another worker has left, of somebody who does not know the job's secret.
TEST(ParameterServer, HearsNobodyWhoDoesNotKnowTheSecret) {
  RunningServers servers(1, {.workers = 2, .secret = "of the job"});
  auto options = options_of(servers, 0);
  options.secret = "of the job";
  options.timeout = std::chrono::milliseconds{1500};
  SliceClient client(options, kSlices, Rule{});
  client.start();
  zmq::context_t context;
  zmq::socket_t stranger(context, zmq::socket_type::dealer);
  stranger.set(zmq::sockopt::linger, 1000);
  stranger.connect(servers.endpoints()[0]);
  for (const auto kind : {ps::Kind::leave, ps::Kind::alive_at_rest})
    ps::send_message(stranger, {.kind = kind, .worker = 1, .group = ps::group_of("optimizer", "")});
  const auto error = error_of([&] { push_ones(client); });
  EXPECT_TRUE(contains(error, "(it waits for worker 1), which did not come")) << error;
}

// When both have come and left what they had there; one that is cut off has not left.
TEST(ParameterServer, EndsWithItsWorkers) {
  ps::Server server({.workers = 2, .ends_with_workers = true});
  std::atomic<bool> has_ended = false;
  std::jthread serving([&] {
    server.run();
    has_ended = true;
  });
  const auto options = [&](int worker, const std::string& name) {
    return ClientOptions{.servers = {server.endpoint()}, .worker = worker, .name = name};
  };
  {
    SliceClient first(options(0, "optimizer"), kSlices, Rule{});
    SliceClient second(options(1, "optimizer"), kSlices, Rule{});
    ps::TableClient table(options(0, "words"), kZeros, Rule{});
  }
  {
    SliceClient again(options(1, "optimizer"), kSlices, Rule{});
    std::this_thread::sleep_for(std::chrono::milliseconds{2500});
    EXPECT_FALSE(has_ended);
  }
  serving.join();
  EXPECT_TRUE(has_ended);
}

TEST(ParameterServer, NamesTheWorkerThatItWaitsFor) {
  RunningServers servers(1, {.workers = 3, .staleness = 1});
  auto options = options_of(servers, 0);
  options.timeout = std::chrono::milliseconds{2500};
  SliceClient client(options, kSlices, Rule{});
  client.start();
  SliceClient other(options_of(servers, 1), kSlices, Rule{});
  push_ones(client);
  const auto error = error_of([&] { push_ones(client); });
  EXPECT_TRUE(contains(error, "(it waits for worker 1)") ||
              contains(error, "(it waits for worker 2)"))
      << error;
}

}  // namespace
}  // namespace sullae::testing
