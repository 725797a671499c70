// What a server does, and what it refuses.
#include <gtest/gtest.h>

#include <latch>
#include <memory>
#include <thread>

#include "ps/server/clients.h"
#include "support/errors.h"

namespace sullae::testing {
namespace {

using ps::ClientOptions;
using ps::Rule;
using ps::SliceClient;

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
  EXPECT_TRUE(contains(other,
                       "its optimizer is momentum 0.5, and that of the first worker momentum 0.0"))
      << other;
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

TEST(ParameterServer, RefusesOptionsThatCannotBe) {
  EXPECT_EQ(error_of([] { ps::Server({.workers = 0}); }),
            "parameter server: 0 workers: expected 1 or more");
  EXPECT_EQ(error_of([] { ps::Server({.staleness = -2}); }),
            "parameter server: staleness -2: expected a number of steps, or -1 for no bound");
  EXPECT_EQ(error_of([] { ps::Server({.endpoint = "tcp://*:99999"}); }),
            "parameter server: 'tcp://*:99999': expected a port from 0 to 65535, or *");
  EXPECT_EQ(
      error_of([] { ps::Server({.endpoint = "tcp://nowhere"}); }),
      "parameter server: cannot listen at 'tcp://nowhere' (Invalid argument): expected a free "
      "address of this host as tcp://HOST:PORT, or tcp://*:PORT");
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
