// Requests whose end is in doubt, as suites against request smuggling publish them (RFC 9112,
// sections 2.2, 3, 5 to 7 and 11.2): each is answered once, with 400, and nothing behind it is
// taken for a request.
#include <gtest/gtest.h>

#include "http/server.h"
#include "support/http_client.h"

namespace sullae::testing {
namespace {

using http::Handler;
using http::Request;
using http::Response;
using http::Server;

class Counting final : public http::Handler {
 public:
  std::optional<http::Response> refuse_early(const http::Request&) override { return std::nullopt; }
  void handle(http::Request request, http::Respond respond) override {
    ++requests;
    respond({.content_type = "text/plain",
             .body = request.method + " " + request.path + "?" + request.query + " " +
                     std::string(request.header("host")) + " " + request.body +
                     std::string(request.header("x-late"))});
  }
  http::Response refuse(int status, const std::string& message) override {
    return {.status = status, .body = message};
  }
  std::atomic<int> requests = 0;
};

class Framing : public ::testing::Test {
 protected:
  Counting handler_;
  http::Server server_{{.port = 0, .read_timeout = std::chrono::milliseconds(2000)}, handler_};
};

const std::string kPost = "POST /a HTTP/1.1\r\nHost: h\r\n";
const std::string kHidden = "GET /hidden HTTP/1.1\r\nHost: h\r\n\r\n";

TEST_F(Framing, DoubtfulRequestsAreRefusedAndTheConnectionClosed) {
  const std::string chunked = "0\r\n\r\n";
  const std::string cases[] = {
      // Control characters in a chunk's extension, where a quoted text may seem to hide them.
      kPost + "Transfer-Encoding: chunked\r\n\r\n5;a=\"\nabcd\"\r\nabcde\r\n" + chunked,
      kPost + "Transfer-Encoding: chunked\r\n\r\n5;a=\"" + std::string(1, '\0') +
          "\"\r\nabcde\r\n" + chunked,
      // Transfer-Encoding that is not just chunked.
      kPost + "Transfer-Encoding: identity\r\n\r\n",
      kPost + "Transfer-Encoding: chunked, identity\r\n\r\n",
      kPost + "Transfer-Encoding: identity, chunked\r\n\r\n" + chunked,
      kPost + "Transfer-Encoding: gzip, chunked\r\n\r\n" + chunked,
      kPost + "Transfer-Encoding: xchunked\r\n\r\n",
      kPost + "Transfer-Encoding: \"chunked\"\r\n\r\n",
      kPost + "Transfer-Encoding: chunked;q=1\r\n\r\n" + chunked,
      kPost + "Transfer-Encoding:\r\n\r\n",
      kPost + "Transfer-Encoding: ,chunked\r\n\r\n" + chunked,
      kPost + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked,
      kPost + "Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n" + chunked,
      kPost + "Transfer-Encoding : chunked\r\n\r\n" + chunked,
      kPost + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n" + chunked,
      kPost + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked,
      kPost +
          "Transfer-Encoding: \x0b"
          "chunked\r\n\r\n" +
          chunked,
      kPost + " Transfer-Encoding: chunked\r\n\r\n" + chunked,
      "POST /a HTTP/1.0\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked,
      // Content-Length that is not one number.
      kPost + "Content-Length: 0\r\nContent-Length: 0\r\n\r\n",
      kPost + "Content-Length: 0\r\nContent-Length: 33\r\n\r\n",
      kPost + "Content-Length: 0, 0\r\n\r\n",
      kPost + "Content-Length: +0\r\n\r\n",
      kPost + "Content-Length: -1\r\n\r\n",
      kPost + "Content-Length: 0x0\r\n\r\n",
      kPost + "Content-Length: 1e1\r\n\r\n",
      kPost + "Content-Length: 99999999999999999999\r\n\r\n",
      kPost + "Content-Length : 0\r\n\r\n",
      kPost + "Content-Length: \r\n\r\n",
      // Chunks.
      kPost + "Transfer-Encoding: chunked\r\n\r\n0x0\r\n\r\n",
      kPost + "Transfer-Encoding: chunked\r\n\r\n+0\r\n\r\n",
      kPost + "Transfer-Encoding: chunked\r\n\r\n-1\r\n\r\n",
      kPost + "Transfer-Encoding: chunked\r\n\r\n\r\n\r\n",
      kPost + "Transfer-Encoding: chunked\r\n\r\n1ffffffffffffffff\r\na\r\n0\r\n\r\n",
      kPost + "Transfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n",
      // Lines.
      "POST /a HTTP/1.1\nHost: h\nContent-Length: 0\n\n",
      "POST /a HTTP/1.1\r\nHost: h\r\nA\r\n\r\n",
      "POST /a HTTP/1.1\r\nHost: h\r\nA\rB: c\r\n\r\n",
      "POST /a HTTP/1.1\r\nHost: h\r\nA: b\rContent-Length: 33\r\n\r\n",
      "POST /a HTTP/1.1\r\nHost: h\r\nA: b" + std::string(1, '\0') + "c\r\n\r\n",
      "POST /a HTTP/1.1\r\nHost: h\r\n: c\r\n\r\n",
      "POST /a HTTP/1.1\r\nHost: h\r\nA B: c\r\n\r\n",
      "POST /a HTTP/2.0\r\nHost: h\r\n\r\n",
      "POST /a HTTP/1.1x\r\nHost: h\r\n\r\n",
      "POST  /a HTTP/1.1\r\nHost: h\r\n\r\n",
      "POST /a  HTTP/1.1\r\nHost: h\r\n\r\n",
      "POST /a\r\nHost: h\r\n\r\n",
      // Whose request it is.
      "POST /a HTTP/1.1\r\n\r\n",
      "POST /a HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
      "POST /a HTTP/1.1\r\nHost: a, b\r\n\r\n",
      "POST /a HTTP/1.1\r\nHost: a/b\r\n\r\n",
      "POST a HTTP/1.1\r\nHost: h\r\n\r\n",
      "POST ftp://h/a HTTP/1.1\r\nHost: h\r\n\r\n",
      "POST http:///a HTTP/1.1\r\nHost: h\r\n\r\n",
  };
  for (const auto& text : cases) {
    SCOPED_TRACE(text);
    handler_.requests = 0;
    HttpClient http(server_.port());
    http.send(text + kHidden);
    EXPECT_EQ(http.read_answer().status, 400);
    EXPECT_TRUE(http.is_closed());
    EXPECT_EQ(handler_.requests, 0);
  }
}

TEST_F(Framing, WhatIsCommonIsTaken) {
  const std::pair<std::string, std::string> cases[] = {
      {kPost + "Content-Length: 3\r\n\r\nabc", "POST /a? h abc"},
      {kPost + "content-length:3\r\n\r\nabc", "POST /a? h abc"},
      {kPost + "Transfer-Encoding: Chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", "POST /a? h abc"},
      {kPost +
           "Transfer-Encoding: chunked\r\n\r\n1;x=y\r\na\r\n2\r\nbc\r\n0\r\nX-Late: token\r\n\r\n",
       "POST /a? h abc"},  // trailers are no part of the request
      {"POST http://other:8000/b/c?d=e HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n",
       "POST /b/c?d=e other:8000 "},
      {"POST http://other HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n", "POST /? other "},
      {"GET /a?b=?c HTTP/1.1\r\nHost: h\r\n\r\n", "GET /a?b=?c h "},
      {"POST /a HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\na", "POST /a?  a"}};
  for (const auto& [text, expected] : cases) {
    SCOPED_TRACE(text);
    HttpClient http(server_.port());
    http.send(text + kHidden);
    const auto answer = http.read_answer();
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.body, expected);
    EXPECT_EQ(http.read_answer().body, "GET /hidden? h ");
  }
}

TEST_F(Framing, HeadHasNoBodyAndTheNextAnswerIsItsOwn) {
  HttpClient http(server_.port());
  http.send("HEAD /a HTTP/1.1\r\nHost: h\r\n\r\n" + kHidden);
  const auto head = http.read_head();
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.headers.at("content-length"), "11");
  EXPECT_EQ(head.body, "");
  EXPECT_EQ(http.read_answer().body, "GET /hidden? h ");
}

}  // namespace
}  // namespace sullae::testing
