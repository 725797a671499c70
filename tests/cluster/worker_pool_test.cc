// What a launcher answers to those who say that they are its workers; the rest is tested with a
// real cluster, in slurm/.
#include "cluster/worker_pool.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <atomic>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/version.h"
#include "support/errors.h"
#include "support/temporary_directory.h"

namespace sullae::cluster {
namespace {

using testing::contains;
using testing::error_of;
using testing::TemporaryDirectory;

class WorkerPoolTest : public ::testing::Test {
 protected:
  WorkerPoolTest()
      : folder_(JobFolders(directory_.path())
                    .make({.command = {"true"},
                           .name = "a",
                           .directory = "/",
                           .min_nodes = 2,
                           .max_nodes = 2})
                    .folder) {
    folder_.begin_attempt();
    pool_.emplace(
        WorkerPoolOptions{.folder = folder_, .job = folder_.job(), .address = "127.0.0.1"},
        *engine_, [this] { failed_ = true; });
    std::ifstream(folder_.attempt(1) / "coordinator.json") >> address_;
  }

  UniqueFd connect() const {
    UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(address_.at("port").get<std::uint16_t>());
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(socket.get(), reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
    return socket;
  }

  Hello hello(const std::string& node) const {
    return {.version = kVersion,
            .secret = address_.at("secret"),
            .node = node,
            .engine_id = "1",
            .slots = 3};
  }

  std::string welcome() const { return "ok " + address_.at("answer").get<std::string>(); }

  // What it is answered; the connection stays open.
  std::string say(const std::string& text) {
    sockets_.push_back(connect());
    EXPECT_EQ(::send(sockets_.back().get(), text.data(), text.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(text.size()));
    std::string answer;
    char letter = 0;
    while (::recv(sockets_.back().get(), &letter, 1, 0) == 1 && letter != '\n') answer += letter;
    return answer;
  }
  std::string say(const Hello& hello) { return say(hello.to_json() + "\n"); }

  TemporaryDirectory directory_;
  JobFolder folder_;
  std::unique_ptr<Engine> engine_ =
      make_engine("kubernetes", Settings{});  // which asks nobody for workers
  std::atomic<bool> failed_{false};
  std::optional<WorkerPool> pool_;
  nlohmann::json address_;
  std::vector<UniqueFd> sockets_;
};

TEST_F(WorkerPoolTest, WorkersBecomeHosts) {
  EXPECT_EQ(say(hello("n1")), welcome());
  EXPECT_EQ(say(hello("n1")), welcome());
  const auto hosts = pool_->wait_for(2, Deadline(std::chrono::seconds{60}, "test"));
  EXPECT_EQ(hosts, (std::vector<Host>{{"n1", 3}, {"n1#2", 3}}));
  const auto launcher = pool_->launcher_of("n1#2");
  const auto channel = launcher->start({});
  ASSERT_EQ(::write(channel.input.get(), "x", 1), 1);
  char letter = 0;
  EXPECT_EQ(::recv(sockets_.back().get(), &letter, 1, 0), 1);
  pool_->released("n1");
  EXPECT_EQ(pool_->first().hosts, (std::vector<Host>{{"n1#2", 3}}));
}

TEST_F(WorkerPoolTest, StrangersAreTurnedAway) {
  Hello other = hello("n1");
  other.secret = "guessed";
  EXPECT_EQ(say(other), "this is not the launcher of your job's attempt");
  EXPECT_EQ(say("GET / HTTP/1.1\r\n\r\n"), "");
  EXPECT_EQ(say("{}\n"), "");
  EXPECT_TRUE(pool_->first().hosts.empty());
  EXPECT_FALSE(failed_);
}

TEST_F(WorkerPoolTest, AnotherVersionIsNamed) {
  Hello other = hello("n7");
  other.version = "0.0.9";
  EXPECT_TRUE(contains(
      say(other), "node n7 has Sullae 0.0.9, and the job's launcher " + std::string(kVersion)));
  EXPECT_TRUE(
      contains(error_of([&] { pool_->wait_for(1, Deadline(std::chrono::seconds{60}, "test")); }),
               "the same on all nodes is needed"));
  EXPECT_TRUE(failed_);
}

TEST_F(WorkerPoolTest, WhatANodeLacksIsNamed) {
  Hello other = hello("n7");
  other.problem = "--mount data: /mnt/data is not there";
  EXPECT_EQ(say(other), "node n7: --mount data: /mnt/data is not there");
  EXPECT_EQ(pool_->failure(), "node n7: --mount data: /mnt/data is not there");
}

TEST_F(WorkerPoolTest, ANodeThatComesLaterAndIsNotLikeTheOthersIsTurnedAwayAlone) {
  EXPECT_EQ(say(hello("n1")), welcome());
  Hello other = hello("n7");
  other.version = "0.0.9";
  EXPECT_TRUE(contains(say(other), "node n7 has Sullae 0.0.9"));
  EXPECT_FALSE(failed_);
  EXPECT_EQ(pool_->first().hosts.size(), 1U);
}

TEST_F(WorkerPoolTest, WorkersThatDoNotComeAreCounted) {
  EXPECT_EQ(say(hello("n1")), welcome());
  const auto error = error_of(
      [&] { pool_->wait_for(2, Deadline(std::chrono::milliseconds{50}, "the test's limit")); });
  EXPECT_TRUE(contains(error, "1 of 2 nodes have connected within 0.05 s (the test's limit)"))
      << error;
}

TEST_F(WorkerPoolTest, AHostThatHasGoneIsLostAtOnce) {
  const auto channel = pool_->launcher_of("never")->start({});
  char letter = 0;
  EXPECT_EQ(::read(channel.output.get(), &letter, 1), 0);
}

}  // namespace
}  // namespace sullae::cluster
