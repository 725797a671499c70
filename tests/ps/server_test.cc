// Workers and servers that die, and what is refused.
#include "ps/server.h"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <latch>
#include <nlohmann/json.hpp>
#include <thread>

#include "ps/client.h"
#include "support/errors.h"
#include "support/parameter_servers.h"
#include "support/temporary_directory.h"

namespace sullae::testing {
namespace {

using ps::Client;
using ps::ClientOptions;
using ps::Rule;

// One slice of three elements on the first server.
const std::vector<ps::Slice> kSlices{{.server = 0, .ranges = {{0, 0, 3}}}};

ClientOptions options_of(const RunningServers& servers, int worker) {
  return {.servers = servers.endpoints(), .worker = worker, .timeout = std::chrono::seconds{30}};
}

std::vector<float> values_of(Client& client) {
  const auto values = client.values(0);
  return {values.begin(), values.end()};
}

void push_ones(Client& client) {
  client.gradient(0).assign(3, 1);
  client.present(0).assign(1, 1);
  client.push_pull(1);
}

TEST(ParameterServer, TakesEveryGradientOnceThoughItDiesAgainAndAgain) {
  const ps::ServerOptions options{.workers = 1};
  RunningServers servers(1, options);
  Client client(options_of(servers, 0), kSlices, Rule{});
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
  Client client(options_of(servers, 0), kSlices, momentum);
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
      Client client(options_of(servers, worker), kSlices, Rule{});
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
    Client client(options_of(servers, 0), kSlices, Rule{.kind = Rule::Kind::adam});
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
      {"rule", to_json(Rule{})},
      {"slices", {{{"id", 0}, {"ranges", {3}}}}},
  };
  dead.send(message_of(ps::Header{.kind = ps::Kind::hello, .worker = 1, .incarnation = 5}),
            zmq::send_flags::sndmore);
  dead.send(ps::message_of(said.dump()), zmq::send_flags::none);
  zmq::message_t welcome;
  ASSERT_TRUE(dead.recv(welcome));

  Client client(options_of(servers, 0), kSlices, Rule{});
  client.start();
  for (int step = 0; step < 3; ++step) push_ones(client);
  EXPECT_EQ(values_of(client), std::vector<float>(3, -3));
}

TEST(ParameterServer, WaitsNoMoreForAWorkerThatLeaves) {
  RunningServers servers(1, {.workers = 2});
  auto other = std::make_unique<Client>(options_of(servers, 1), kSlices, Rule{});
  Client client(options_of(servers, 0), kSlices, Rule{});
  client.start();
  other.reset();
  push_ones(client);
  EXPECT_EQ(values_of(client), std::vector<float>(3, -1));
}

TEST(ParameterServer, LetsAWorkerInThatComesLater) {
  RunningServers servers(1, {.workers = 1, .staleness = 2});
  Client client(options_of(servers, 0), kSlices, Rule{});
  client.start();
  for (int step = 0; step < 10; ++step) push_ones(client);
  Client late(options_of(servers, 7), kSlices, Rule{});
  late.start();
  EXPECT_EQ(values_of(late), std::vector<float>(3, -10));
  push_ones(late);
  push_ones(client);
  EXPECT_EQ(values_of(client), std::vector<float>(3, -12));
  EXPECT_EQ(client.delays().most_updates, 1);
}

TEST(ParameterServer, SaysWhatItRefuses) {
  RunningServers servers(1, {.workers = 2, .secret = "of the job"});
  auto options = options_of(servers, 0);
  const auto error = [&](const std::vector<ps::Slice>& slices, const Rule& rule) {
    return error_of([&] { Client(options, slices, rule).start(); });
  };
  EXPECT_TRUE(contains(error(kSlices, {}), "refuses worker 0: it belongs to another job"));
  options.secret = "of the job";
  Client client(options, kSlices, Rule{});
  options.worker = 1;
  const auto larger = error({{.server = 0, .ranges = {{0, 0, 4}}}}, {});
  EXPECT_TRUE(contains(larger, "refuses worker 1: its parameters are others than the first"))
      << larger;
  const auto other = error(kSlices, {.momentum = 0.5});
  EXPECT_TRUE(contains(other, "its optimizer is {")) << other;
  EXPECT_TRUE(contains(other, "\"momentum\":0.5")) << other;
}

TEST(ParameterServer, IsNamedWhereItDoesNotAnswer) {
  const ClientOptions options{
      .servers = {"tcp://127.0.0.1:1"}, .worker = 3, .timeout = std::chrono::milliseconds{200}};
  EXPECT_EQ(error_of([&] { Client(options, kSlices, Rule{}); }),
            "worker 3 waited for a parameter server's welcome from parameter server 0 "
            "(tcp://127.0.0.1:1), which did not come within 0.2 s (SULLAE_TIMEOUT)");
  const ClientOptions nowhere{.servers = {"nowhere"}};
  EXPECT_EQ(error_of([&] { Client(nowhere, kSlices, Rule{}); }),
            "parameter server 'nowhere': Invalid argument: expected an address as tcp://HOST:PORT");
}

TEST(ParameterServer, NamesTheWorkerThatItWaitsFor) {
  RunningServers servers(1, {.workers = 3, .staleness = 1});
  auto options = options_of(servers, 0);
  options.timeout = std::chrono::milliseconds{2500};
  Client client(options, kSlices, Rule{});
  client.start();
  Client other(options_of(servers, 1), kSlices, Rule{});
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
  say(ps::Kind::hello, R"({"secret": "", "rule": 3, "slices": {}})");
  stranger.send(ps::message_of(ps::Header{.kind = ps::Kind::hello}), zmq::send_flags::none);
  say(ps::Kind::push, "no gradient");
  for (int i = 0; i < 5; ++i) {  // four greetings and a push of an unknown worker
    zmq::message_t part;
    ASSERT_TRUE(stranger.recv(part));
    const auto header = ps::span_of<ps::Header>(part).front();
    EXPECT_EQ(header.kind, i < 4 ? ps::Kind::refused : ps::Kind::unknown);
    while (part.more()) ASSERT_TRUE(stranger.recv(part));
  }
  Client client(options_of(servers, 0), kSlices, Rule{});
  client.start();
  push_ones(client);
  EXPECT_EQ(values_of(client), std::vector<float>(3, -1));
}

}  // namespace
}  // namespace sullae::testing
