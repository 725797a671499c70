// Servers that die, and come back.
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <latch>
#include <thread>

#include "ps/server/clients.h"
#include "support/content_of.h"
#include "support/errors.h"
#include "support/temporary_directory.h"
#include "support/wait_until.h"

namespace sullae::testing {
namespace {

using ps::ClientOptions;
using ps::Rule;
using ps::SliceClient;

// What it begins with, and as good as never again.
ps::ServerOptions saves_once(const TemporaryDirectory& directory) {
  return {.workers = 1,
          .state_file = directory.path() / "ps.state",
          .save_every = std::chrono::hours{1}};
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

TEST(ParameterServer, TakesOnceWhatWasSentAheadBeforeItDied) {
  const ps::ServerOptions options{.workers = 1};
  RunningServers servers(1, options);
  const std::vector<ps::Slice> slices{{.server = 0, .ranges = {{0, 0, 3}}},
                                      {.server = 0, .ranges = {{1, 0, 3}}}};
  SliceClient client(options_of(servers, 0), slices, Rule{});
  client.start();
  for (int step = 1; step <= 4; ++step) {
    for (const std::size_t slice : {0, 1}) {
      client.gradient(slice).assign(3, 1);
      client.present(slice).assign(1, 1);
    }
    client.push_ahead(1, 1);
    EXPECT_TRUE(client.has_pushed(1));
    EXPECT_FALSE(client.has_pushed(0));
    if (step % 2 == 0) servers.restart(0, options);
    client.push_pull(1);
    EXPECT_FALSE(client.is_pushing());
    for (const std::size_t slice : {0, 1}) {
      const auto values = client.values(slice);
      EXPECT_EQ(std::vector<float>(values.begin(), values.end()),
                std::vector<float>(3, static_cast<float>(-step)));
    }
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
  const auto copy = directory.path() / "copy";
  std::filesystem::copy_file(options.state_file, copy);
  { const ps::Server other({.workers = 1, .state_file = copy}); }
  EXPECT_EQ(error_of([&] { ps::Server({.staleness = 3, .state_file = copy}); }),
            copy.string() + ": is of servers with staleness 0: expected 3");
}

// Whoever is killed soon has saved what it began with.
TEST(ParameterServer, SavesAtOnceWhereNothingIsSavedYet) {
  const TemporaryDirectory directory;
  const ps::ServerOptions options = saves_once(directory);
  RunningServers servers(1, options);
  SliceClient client(options_of(servers, 0), kSlices, Rule{});
  client.start();
  wait_until([&] { return std::filesystem::exists(options.state_file); });
}

// Rows that are given one part after the other: what was saved before the last would be taken for
// all.
TEST(ParameterServer, SavesWhatWorkersBeginWithWhole) {
  const TemporaryDirectory directory;
  const ps::ServerOptions options = saves_once(directory);
  RunningServers servers(1, options);
  ps::TableClient table(options_of(servers, 0), kZeros, Rule{});
  table.clear(0);
  ps::Rows rows;
  for (std::uint64_t id = 0; id < 1000; ++id) rows.ids.push_back(id);
  rows.data.resize(rows.ids.size() * kZeros.dimension, 1);
  table.put_rows(rows);
  const std::vector<float> gradient(kZeros.dimension, 1);
  table.push(std::vector<std::uint64_t>{3}, gradient.data(), 1);
  const auto bytes = rows.data.size() * sizeof(float);
  wait_until([&] {
    std::error_code error;
    const auto size = std::filesystem::file_size(options.state_file, error);
    return !error && size > bytes;
  });
}

// A server that came back with it would go on from another model, and nobody would see it.
TEST(ParameterServer, AnEarlierJobsFileGoesWhenWorkersBringTheirs) {
  const TemporaryDirectory directory;
  const ps::ServerOptions options = saves_once(directory);
  {
    RunningServers servers(1, options);
    SliceClient client(options_of(servers, 0), kSlices, Rule{});
    client.start();
    push_ones(client);
  }
  const auto earlier = content_of(options.state_file);
  RunningServers servers(1, options);
  SliceClient client(options_of(servers, 0), kSlices, Rule{});
  client.start();
  client.pull_state();
  EXPECT_EQ(content_of(options.state_file), earlier) << "nothing was brought";
  client.put_state();
  wait_until([&] { return content_of(options.state_file) != earlier; });
}

// A server that is new here hears of one worker, and not of another that has died meanwhile.
TEST(ParameterServer, WaitsTheLeaseForThoseThatItHasNeverSeen) {
  const ps::ServerOptions options{.workers = 2, .lease = std::chrono::milliseconds{1500}};
  RunningServers servers(1, options);
  SliceClient client(options_of(servers, 0), kSlices, Rule{});
  {
    SliceClient other(options_of(servers, 1), kSlices, Rule{});
    std::jthread thread([&] {
      other.start();
      push_ones(other);
    });
    client.start();
    push_ones(client);
  }
  push_ones(client);
  servers.restart(0, options);
  for (int step = 0; step < 3; ++step) EXPECT_NO_THROW(push_ones(client));
}

TEST(ParameterServer, HasItsStateFileForItselfAndCleansUpBehindOneThatWasKilled) {
  const TemporaryDirectory directory;
  const auto file = directory.path() / "ps.state";
  std::ofstream(file.string() + ".tmp-17") << "a part";
  const ps::Server server({.workers = 1, .state_file = file});
  EXPECT_FALSE(std::filesystem::exists(file.string() + ".tmp-17"));
  EXPECT_EQ(error_of([&] { ps::Server({.workers = 1, .state_file = file}); }),
            file.string() +
                ": another parameter server saves there: expected a file, or a "
                "--ps-dir, of its own");
}

// It waits for others, and hears nothing of the server's return: the others are not to wait for it
// there.
TEST(ParameterServer, IsToldWhereWorkersAreThatDoNotAskIt) {
  const TemporaryDirectory directory;
  const auto older = directory.path() / "older";
  const ps::ServerOptions options{.workers = 2,
                                  .staleness = 2,
                                  .state_file = directory.path() / "ps.state",
                                  .save_every = std::chrono::milliseconds{0}};
  RunningServers servers(1, options);
  std::latch saved(2);
  std::latch has_pushed(1);
  std::latch is_done(1);
  std::jthread other([&] {
    SliceClient client(options_of(servers, 1), kSlices, Rule{});
    client.start();
    push_ones(client);
    saved.arrive_and_wait();
    for (int step = 0; step < 10; ++step) push_ones(client);
    has_pushed.count_down();
    is_done.wait();
  });
  SliceClient client(options_of(servers, 0), kSlices, Rule{});
  client.start();
  push_ones(client);
  wait_until([&] { return std::filesystem::exists(options.state_file); });
  std::filesystem::copy_file(options.state_file, older);
  saved.arrive_and_wait();
  for (int step = 0; step < 10; ++step) push_ones(client);
  has_pushed.wait();
  auto with_older = options;
  with_older.state_file = older;
  servers.restart(0, with_older);
  for (int step = 0; step < 2; ++step) EXPECT_NO_THROW(push_ones(client));
  is_done.count_down();
}

TEST(ParameterServer, KnowsTwoProcessesOfOneNumber) {
  RunningServers servers(1, {.workers = 1});
  auto options = options_of(servers, 0);
  SliceClient first(options, kSlices, Rule{});
  first.start();
  // By another name of the same server: within one process it would be seen before.
  auto& address = options.servers.front();
  address.replace(address.find('['), address.find(']') - address.find('[') + 1, "127.0.0.1");
  SliceClient second(options, kSlices, Rule{});
  second.start();
  push_ones(second);
  EXPECT_TRUE(contains(error_of([&] { push_ones(first); }),
                       "refuses worker 0: another process is worker 0 by now"));
  push_ones(second);
}

// What is on the disk is older than what workers have: those go on from there, and none waits for
// ever.
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

}  // namespace
}  // namespace sullae::testing
