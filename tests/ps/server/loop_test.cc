// Workers and servers that die, and what is refused.
#include "ps/server/loop.h"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <latch>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/hash.h"
#include "ps/client/slice_client.h"
#include "ps/client/table_client.h"
#include "support/errors.h"
#include "support/parameter_servers.h"
#include "support/temporary_directory.h"

namespace sullae::testing {
namespace {

using ps::ClientOptions;
using ps::Rule;
using ps::SliceClient;

// One slice of three elements on the first server.
const std::vector<ps::Slice> kSlices{{.server = 0, .ranges = {{0, 0, 3}}}};

ClientOptions options_of(const RunningServers& servers, int worker) {
  return {.servers = servers.endpoints(), .worker = worker, .timeout = std::chrono::seconds{30}};
}

std::vector<float> values_of(SliceClient& client) {
  const auto values = client.values(0);
  return {values.begin(), values.end()};
}

void push_ones(SliceClient& client) {
  client.gradient(0).assign(3, 1);
  client.present(0).assign(1, 1);
  client.push_pull(1);
}

TEST(ParameterServer, TakesEveryGradientOnceThoughItDiesAgainAndAgain) {
  const ps::ServerOptions options{.workers = 1};
  RunningServers servers(1, options);
  SliceClient client(options_of(servers, 0), kSlices, Rule{});
  client.start();
  std::atomic<int> deaths = 0;
  std::jthread killer([&] {
    for (; deaths < 8; ++deaths) {
      std::this_thread::sleep_for(std::chrono::milliseconds{100});
      servers.restart(0, options);
    }
  });
  for (int step = 1; deaths < 8; ++step) {
    push_ones(client);
    ASSERT_EQ(values_of(client), std::vector<float>(3, static_cast<float>(-step)));
  }
}

TEST(ParameterServer, ComesBackWithWhatItHeld) {
  const TemporaryDirectory directory;
  const ps::ServerOptions options{.workers = 1, .state_file = directory.path() / "ps.state"};
  RunningServers servers(1, options);
  const Rule momentum{.momentum = 0.5};
  SliceClient client(options_of(servers, 0), kSlices, momentum);
  client.start();
  push_ones(client);
  servers.restart(0, options);
  push_ones(client);  // 1, and then 1 + 0.5
  EXPECT_EQ(values_of(client), std::vector<float>(3, -2.5));
  // Another job goes on from there, if its model is the same.
  const ps::Server other({.workers = 1, .state_file = options.state_file});
  EXPECT_EQ(error_of([&] { ps::Server({.staleness = 3, .state_file = options.state_file}); }),
            options.state_file.string() + ": is of servers with staleness 0: expected 3");
}

// What is on the disk is older than what workers have: those go on from there, and none waits for ever.
TEST(ParameterServer, GoesOnFromAnOlderState) {
  const TemporaryDirectory directory;
  for (const int staleness : {0, 2}) {
    const auto file = directory.path() / std::to_string(staleness);
    const auto older = directory.path() / "older";
    const ps::ServerOptions options{.workers = 2,
                                    .staleness = staleness,
                                    .state_file = file,
                                    .save_every = std::chrono::milliseconds{0}};
    RunningServers servers(1, options);
    std::latch saved(1);
    std::latch restarted(1);
    const auto work = [&](int worker) {
      SliceClient client(options_of(servers, worker), kSlices, Rule{});
      client.start();
      for (int step = 0; step < 5; ++step) push_ones(client);
      if (worker == 0) {
        while (!std::filesystem::exists(file)) std::this_thread::yield();
        std::filesystem::copy_file(file, older, std::filesystem::copy_options::overwrite_existing);
        saved.count_down();
      }
      saved.wait();
      for (int step = 0; step < 5; ++step) push_ones(client);
      if (worker == 0) {
        auto without = options;
        without.state_file = older;
        servers.restart(0, without);
        restarted.count_down();
      }
      restarted.wait();
      for (int step = 0; step < 5; ++step) push_ones(client);
      EXPECT_LE(client.values(0)[0], -5);  // the file may be from before the first step
    };
    std::jthread other([&] { work(1); });
    work(0);
  }
}

TEST(ParameterServer, RefusesAStateThatIsTorn) {
  const TemporaryDirectory directory;
  const auto file = directory.path() / "ps.state";
  const ps::ServerOptions options{.workers = 1, .state_file = file};
  {
    RunningServers servers(1, options);
    SliceClient client(options_of(servers, 0), kSlices, Rule{.kind = Rule::Kind::adam});
    client.start();
    push_ones(client);
  }
  const auto size = std::filesystem::file_size(file);
  for (std::size_t left = 0; left < size; left += 7) {
    std::filesystem::copy_file(file, directory.path() / "torn",
                               std::filesystem::copy_options::overwrite_existing);
    std::filesystem::resize_file(directory.path() / "torn", left);
    const auto error =
        error_of([&] { ps::Server({.workers = 1, .state_file = directory.path() / "torn"}); });
    EXPECT_TRUE(contains(error, "torn: is ")) << left << error;
    EXPECT_TRUE(contains(error, "expected what a parameter server has saved")) << error;
  }
}

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
  ps::send_message(
      dead, {.kind = ps::Kind::hello, .worker = 1, .group = fnv1a("optimizer"), .incarnation = 5},
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

std::vector<float> rows_of(ps::TableClient& table, const std::vector<std::uint64_t>& ids) {
  std::vector<float> rows(ids.size() * table.dimension());
  table.look_up(ids, rows.data());
  return rows;
}

void push_ones(ps::TableClient& table, const std::vector<std::uint64_t>& ids) {
  const std::vector<float> ones(ids.size() * table.dimension(), 1);
  table.push(ids, ones.data(), 1);
}

constexpr ps::TableShape kZeros{.dimension = 2, .deviation = 0};

// A program may have an optimizer and tables, each with clocks of its own.
TEST(ParameterServer, TellsApartWhatOneWorkerHasThere) {
  RunningServers servers(2, {});
  SliceClient client(options_of(servers, 0), kSlices, Rule{});
  auto options = options_of(servers, 0);
  options.name = "words";
  ps::TableClient words(options, kZeros, Rule{});
  EXPECT_EQ(error_of([&] { ps::TableClient(options, kZeros, Rule{}); }),
            "worker 0 has a 'words' on these parameter servers already: expected another name");
  options.name = "pairs";
  ps::TableClient pairs(options, kZeros, Rule{});
  client.start();
  for (int step = 0; step < 3; ++step) push_ones(client);
  push_ones(words, {1, 2});
  push_ones(words, {2});
  push_ones(words, {});
  EXPECT_EQ(values_of(client), std::vector<float>(3, -3));
  EXPECT_EQ(rows_of(words, {1, 2, 3}), (std::vector<float>{-1, -1, -2, -2, 0, 0}));
  EXPECT_EQ(rows_of(pairs, {1, 2}), std::vector<float>(4, 0));
  EXPECT_EQ(rows_of(pairs, {}), std::vector<float>());
}

TEST(ParameterServer, TakesEveryRowsGradientOnceThoughItDiesAgainAndAgain) {
  const TemporaryDirectory directory;
  const ps::ServerOptions options{.workers = 1, .state_file = directory.path() / "ps.state"};
  RunningServers servers(1, options);
  ps::TableClient table(options_of(servers, 0), kZeros, Rule{.kind = Rule::Kind::adagrad});
  const auto gradients_of = [&](std::uint64_t id) {
    double squares = 0;
    table.pull_rows([&](const ps::Rows& rows) {
      for (std::size_t i = 0; i < rows.ids.size(); ++i) {
        if (rows.ids[i] == id) squares += rows.data[i * table.width() + table.dimension()];
      }
    });
    return squares;  // of ones
  };
  std::atomic<int> deaths = 0;
  std::jthread killer([&] {
    for (; deaths < 8; ++deaths) {
      std::this_thread::sleep_for(std::chrono::milliseconds{100});
      servers.restart(0, options);
    }
  });
  for (std::uint64_t step = 1; deaths < 8; ++step) {
    push_ones(table, {7, 1000 + step});
    ASSERT_EQ(gradients_of(7), static_cast<double>(step));
    ASSERT_EQ(gradients_of(1000 + step), 1);
  }
}

TEST(ParameterServer, AveragesTheRowsOfAllWorkers) {
  RunningServers servers(3, {.workers = 2});
  std::latch looked(2);
  const auto work = [&](int worker) {
    ps::TableClient table(options_of(servers, worker), kZeros, Rule{});
    worker == 0 ? push_ones(table, {1, 2, 3, 4, 5}) : push_ones(table, {5, 6});
    EXPECT_EQ(rows_of(table, {1, 5, 6, 7}),
              (std::vector<float>{-0.5, -0.5, -1, -1, -0.5, -0.5, 0, 0}));
    looked.arrive_and_wait();
    push_ones(table, {});
    EXPECT_EQ(table.delays().most_lead, 0);
  };
  std::jthread other([&] { work(1); });
  work(0);
}

TEST(ParameterServer, RowsAreTheSameOnAnyNumberOfServers) {
  const ps::TableShape shape{.dimension = 5, .seed = 12};
  std::vector<float> expected;
  for (const int count : {1, 2, 3}) {
    RunningServers servers(count, {});
    ps::TableClient table(options_of(servers, 0), shape, Rule{.momentum = 0.5});
    const std::vector<std::uint64_t> ids{9, 1, 1000000007, 3, 8, 2};
    for (int step = 0; step < 3; ++step) push_ones(table, {1, 2, 3, 4});
    const auto rows = rows_of(table, ids);
    if (expected.empty()) expected = rows;
    EXPECT_EQ(rows, expected) << count;
  }
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

// Were it let in, the two would wait for it at the table before it comes to the optimizer, or it for them.
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

TEST(ParameterServer, DoesNotMissRowsThatNobodyGave) {
  RunningServers servers(1, {});
  ps::TableClient table(options_of(servers, 0), {.dimension = 2, .seed = 3}, Rule{});
  const auto rows = rows_of(table, {1, 2});
  servers.restart(0, {});
  EXPECT_EQ(rows_of(table, {1, 2}), rows);
}

TEST(ParameterServer, SaysThatRowsAreLost) {
  RunningServers servers(1, {});
  ps::TableClient table(options_of(servers, 0), kZeros, Rule{});
  push_ones(table, {1});
  servers.restart(0, {});
  const auto error = error_of([&] { push_ones(table, {1}); });
  EXPECT_TRUE(contains(error, "parameter server 0 (" + servers.endpoints()[0] +
                                  ") came back without the rows of 'optimizer': expected what it "
                                  "had saved"))
      << error;
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

TEST(ParameterServer, SaysWhatItRefuses) {
  RunningServers servers(1, {.workers = 2, .secret = "of the job"});
  auto options = options_of(servers, 0);
  const auto error = [&](const std::vector<ps::Slice>& slices, const Rule& rule) {
    return error_of([&] { SliceClient(options, slices, rule).start(); });
  };
  EXPECT_TRUE(contains(error(kSlices, {}), "refuses worker 0: it belongs to another job"));
  options.secret = "of the job";
  SliceClient client(options, kSlices, Rule{});
  options.worker = 1;
  const auto larger = error({{.server = 0, .ranges = {{0, 0, 4}}}}, {});
  EXPECT_TRUE(
      contains(larger, "refuses worker 1: the parameters of 'optimizer' are others than the first"))
      << larger;
  const auto other = error(kSlices, {.momentum = 0.5});
  EXPECT_TRUE(contains(other, "its optimizer is {")) << other;
  EXPECT_TRUE(contains(other, "\"momentum\":0.5")) << other;
  const auto table = [&](int worker, std::int64_t dimension) {
    auto given = options;
    given.worker = worker;
    given.name = "words";
    return std::make_unique<ps::TableClient>(given, ps::TableShape{.dimension = dimension}, Rule{});
  };
  const auto first = table(0, 4);
  EXPECT_TRUE(contains(error_of([&] { table(1, 5); }),
                       "the rows of 'words' are others than the first worker's"));
  EXPECT_TRUE(contains(error_of([&] {
                         auto given = options;
                         given.name = "none";
                         ps::TableClient(given, {.dimension = 0}, Rule{});
                       }),
                       "rows of 0 elements: expected 1 to "));
}

TEST(ParameterServer, IsNamedWhereItDoesNotAnswer) {
  const ClientOptions options{
      .servers = {"tcp://127.0.0.1:1"}, .worker = 3, .timeout = std::chrono::milliseconds{200}};
  EXPECT_EQ(error_of([&] { SliceClient(options, kSlices, Rule{}); }),
            "worker 3 waited for a parameter server's welcome from parameter server 0 "
            "(tcp://127.0.0.1:1), which did not come within 0.2 s (SULLAE_TIMEOUT)");
  const ClientOptions nowhere{.servers = {"nowhere"}};
  EXPECT_EQ(error_of([&] { SliceClient(nowhere, kSlices, Rule{}); }),
            "parameter server 'nowhere': Invalid argument: expected an address as tcp://HOST:PORT");
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

TEST(ParameterServer, RefusesOptionsThatCannotBe) {
  EXPECT_EQ(error_of([] { ps::Server({.workers = 0}); }),
            "parameter server: 0 workers: expected 1 or more");
  EXPECT_EQ(error_of([] { ps::Server({.staleness = -2}); }),
            "parameter server: staleness -2: expected a number of steps, or -1 for no bound");
  EXPECT_EQ(error_of([] { ps::Server({.endpoint = "tcp://nowhere"}); }),
            "parameter server: cannot listen at 'tcp://nowhere': Invalid argument");
}

TEST(ParameterServer, StandsWhatIsNoMessageOfOurs) {
  RunningServers servers(1, {});
  zmq::context_t context;
  zmq::socket_t stranger(context, zmq::socket_type::dealer);
  stranger.set(zmq::sockopt::linger, 1000);
  stranger.connect(servers.endpoints()[0]);
  const auto say = [&](ps::Kind kind, const std::string& text) {
    stranger.send(ps::message_of(ps::Header{.kind = kind}), zmq::send_flags::sndmore);
    stranger.send(ps::message_of(text), zmq::send_flags::none);
  };
  stranger.send(zmq::str_buffer("GET / HTTP/1.1"), zmq::send_flags::none);
  stranger.send(ps::message_of(std::string(sizeof(ps::Header), 'x')), zmq::send_flags::none);
  say(ps::Kind::hello, "{}");
  say(ps::Kind::hello, "{");
  say(ps::Kind::hello, R"({"secret": "", "group": "", "rule": 3, "slices": {}})");
  stranger.send(ps::message_of(ps::Header{.kind = ps::Kind::hello}), zmq::send_flags::none);
  say(ps::Kind::push, "no gradient");
  for (int i = 0; i < 5; ++i) {  // four greetings and a push of an unknown worker
    zmq::message_t part;
    ASSERT_TRUE(stranger.recv(part));
    const auto header = ps::vector_of<ps::Header>(part).front();
    EXPECT_EQ(header.kind, i < 4 ? ps::Kind::refused : ps::Kind::unknown);
    while (part.more()) ASSERT_TRUE(stranger.recv(part));
  }
  SliceClient client(options_of(servers, 0), kSlices, Rule{});
  client.start();
  push_ones(client);
  EXPECT_EQ(values_of(client), std::vector<float>(3, -1));
}

}  // namespace
}  // namespace sullae::testing
