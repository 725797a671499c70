// Answers that are sent while they are made.
#include "http/event_stream.h"

#include <gtest/gtest.h>

#include <thread>

#include "http/server.h"
#include "support/http_client.h"
#include "support/wait_until.h"

namespace sullae::testing {
namespace {

// Answers with a stream that the test sends to; and with pieces that are there at once.
class Streaming final : public http::Handler {
 public:
  std::optional<http::Response> refuse_early(const http::Request&) override { return std::nullopt; }
  void handle(http::Request request, http::Respond respond) override {
    if (request.path == "/pieces") {
      respond({.content_type = "text/plain",
               .body = "first ",
               .more = [left = 3](const std::function<void(std::string)>& take) mutable {
                 take(left == 0 ? "" : std::to_string(left--));
               }});
      return;
    }
    respond(stream->answer());
    ++begun;
  }
  http::Response refuse(int status, const std::string& message) override {
    return {.status = status, .body = message};
  }
  std::shared_ptr<http::EventStream> stream = std::make_shared<http::EventStream>();
  std::atomic<int> begun = 0;
};

class EventStreams : public ::testing::Test {
 protected:
  Streaming handler_;
  http::Server server_{{.port = 0, .read_timeout = std::chrono::milliseconds(5000)}, handler_};
};

TEST_F(EventStreams, ComeOneAfterTheOther) {
  HttpClient client(server_.port());
  for (int round = 0; round < 2; ++round) {
    handler_.stream = std::make_shared<http::EventStream>();
    const int begun = handler_.begun;
    // Some before anybody waits, and some that are waited for.
    handler_.stream->send("1");
    client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    wait_until([&] { return handler_.begun > begun; });
    std::thread sender([&] {
      for (int i = 2; i <= 100; ++i) {
        EXPECT_TRUE(handler_.stream->send(std::to_string(i)));
        if (i % 10 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      handler_.stream->end();
    });
    const auto answer = client.read_answer();
    sender.join();
    std::string expected;
    for (int i = 1; i <= 100; ++i) expected += "data: " + std::to_string(i) + "\n\n";
    EXPECT_EQ(answer.body, expected);
    EXPECT_EQ(answer.headers.at("content-type"), "text/event-stream");
    EXPECT_EQ(answer.headers.at("transfer-encoding"), "chunked");
  }
}

TEST_F(EventStreams, PiecesMayBeThereAtOnce) {
  HttpClient client(server_.port());
  for (int round = 0; round < 2; ++round) EXPECT_EQ(client.get("/pieces").body, "first 321");
  EXPECT_EQ(client.ask("HEAD", "/pieces", "").status, 200);
  EXPECT_EQ(client.get("/pieces").body, "first 321");
  // Who knows no chunks reads to the end of the connection.
  client.send("GET /pieces HTTP/1.0\r\n\r\n");
  const auto answer = client.read_answer();
  EXPECT_EQ(answer.body, "first 321");
  EXPECT_EQ(answer.headers.count("transfer-encoding"), 0U);
  EXPECT_TRUE(client.is_closed());
}

TEST_F(EventStreams, WhoSendsIsToldThatTheClientIsGone) {
  {
    HttpClient client(server_.port());
    client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    wait_until([&] { return handler_.begun == 1; });
  }
  wait_until([&] { return !handler_.stream->send("more"); });
  EXPECT_EQ(server_.connections(), 0U);
  handler_.stream->end();
}

// What nobody reads does not take the memory of others.
TEST_F(EventStreams, WhoReadsTooSlowlyGetsNoMore) {
  const std::string piece(std::size_t{64} << 10, 'x');
  std::size_t sent = 0;
  while (handler_.stream->send(piece)) sent += piece.size();
  EXPECT_LE(sent, http::EventStream::kMostWaiting);
  EXPECT_GT(sent, http::EventStream::kMostWaiting / 2);
  // One that is larger than that goes alone.
  const auto large = std::make_shared<http::EventStream>();
  EXPECT_TRUE(large->send(std::string(2 * http::EventStream::kMostWaiting, 'x')));
  EXPECT_FALSE(large->send("y"));
}

TEST_F(EventStreams, TheServerWaitsForTheirEnd) {
  HttpClient client(server_.port());
  client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
  wait_until([&] { return handler_.begun == 1; });
  std::thread ends([&] { server_.shutdown(); });
  handler_.stream->send("last");
  handler_.stream->end();
  EXPECT_EQ(client.read_answer().body, "data: last\n\n");
  ends.join();
}

}  // namespace
}  // namespace sullae::testing
