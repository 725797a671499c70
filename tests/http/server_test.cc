// How a server ends: what has begun is answered, and nothing begins any more.
#include "http/server.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "support/http_client.h"
#include "support/wait_until.h"

namespace sullae::testing {
namespace {

// Answers when the test says so.
class Patient final : public http::Handler {
 public:
  std::optional<http::Response> refuse_early(const http::Request&) override { return std::nullopt; }
  void handle(http::Request, http::Respond respond) override {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(respond));
  }
  http::Response refuse(int status, const std::string& message) override {
    return {.status = status, .body = message};
  }
  std::size_t waiting() const {
    const std::lock_guard lock(mutex_);
    return waiting_.size();
  }
  void answer(int status) {
    const std::lock_guard lock(mutex_);
    for (const auto& respond : waiting_) respond({.status = status, .body = "answer"});
    waiting_.clear();
  }

 private:
  mutable std::mutex mutex_;
  std::vector<http::Respond> waiting_;
};

constexpr const char* kRequest = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";

class ServerEnds : public ::testing::Test {
 protected:
  void ask(HttpClient& client) {
    const auto before = handler_.waiting();
    client.send(kRequest);
    wait_until([&] { return handler_.waiting() > before; });
  }
  bool is_refused() const {
    try {
      const HttpClient client(server_->port());
      return false;
    } catch (const std::runtime_error&) {
      return true;
    }
  }
  void start(std::chrono::milliseconds drain_timeout) {
    server_.emplace(http::ServerOptions{.port = 0, .drain_timeout = drain_timeout}, handler_);
  }
  Patient handler_;
  std::optional<http::Server> server_;
};

TEST_F(ServerEnds, WhileItDrainsItAnswersAndTakesNothingMore) {
  start(std::chrono::seconds(30));
  HttpClient client(server_->port());
  ask(client);
  server_->drain();
  wait_until([&] { return is_refused(); });
  handler_.answer(200);
  EXPECT_EQ(client.read_answer().status, 200);
  EXPECT_TRUE(client.is_closed());
  server_->shutdown([] { ADD_FAILURE() << "all was answered in time"; });
}

// Of connections that are not even accepted, too.
TEST_F(ServerEnds, WhatWasSentBeforeIsAnswered) {
  start(std::chrono::seconds(30));
  std::vector<std::unique_ptr<HttpClient>> clients;
  for (int i = 0; i < 50; ++i) {
    clients.push_back(std::make_unique<HttpClient>(server_->port()));
    clients.back()->send(kRequest);
  }
  server_->drain();
  wait_until([&] { return handler_.waiting() == clients.size(); });
  handler_.answer(200);
  for (const auto& client : clients) EXPECT_EQ(client->read_answer().status, 200);
}

TEST_F(ServerEnds, WhoSendsNothingIsNotWaitedFor) {
  start(std::chrono::seconds(30));
  HttpClient client(server_->port());
  server_->shutdown([] { ADD_FAILURE() << "there was nothing to answer"; });
  EXPECT_TRUE(client.is_closed());
}

TEST_F(ServerEnds, WhoIsLateIsToldSo) {
  start(std::chrono::milliseconds(50));
  HttpClient client(server_->port());
  ask(client);
  server_->shutdown([&] { handler_.answer(503); });
  EXPECT_EQ(client.read_answer().status, 503);
}

TEST_F(ServerEnds, WhoIsLaterStillIsWaitedForByTheServersEnd) {
  start(std::chrono::milliseconds(50));
  HttpClient client(server_->port());
  ask(client);
  EXPECT_FALSE(server_->shutdown());
  std::atomic<bool> is_gone = false;
  std::thread end([&] {
    server_.reset();
    is_gone = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_FALSE(is_gone);
  handler_.answer(200);
  end.join();
  EXPECT_TRUE(client.is_closed());
}

TEST_F(ServerEnds, SeveralThreadsMayEndIt) {
  start(std::chrono::seconds(30));
  HttpClient client(server_->port());
  ask(client);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back([&] { server_->shutdown(); });
  server_->drain();
  wait_until([&] { return is_refused(); });
  handler_.answer(200);
  EXPECT_EQ(client.read_answer().status, 200);
  for (auto& thread : threads) thread.join();
}

}  // namespace
}  // namespace sullae::testing
