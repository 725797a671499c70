// What clients send over one connection, as it is: the first byte says in pieces of how many bytes.
#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "http/session.h"

namespace {

using namespace sullae::serve;
namespace net = boost::asio;
using tcp = net::ip::tcp;

class Host final : public http::SessionHost, public http::Handler {
 public:
  const http::ServerOptions& options() const override { return options_; }
  http::Handler& handler() override { return *this; }
  http::Budget& budget() override { return budget_; }
  bool draining() const override { return false; }
  void add(http::Session&) override { ++sessions_; }
  void remove(http::Session&) override { --sessions_; }

  std::optional<http::Response> refuse_early(const http::Request& head) override {
    // Only what has one reading gets here.
    if (head.path.empty()) std::abort();
    if (head.headers.contains("transfer-encoding") && head.headers.contains("content-length"))
      std::abort();
    if (head.path == "/refused") return http::Response{.status = 401};
    return std::nullopt;
  }
  void handle(http::Request request, http::Respond respond) override {
    if (request.body.size() > options_.max_body_bytes) std::abort();
    if (request.path == "/refused") std::abort();
    respond({.body = request.body});
  }
  http::Response refuse(int status, const std::string& message) override {
    return {.status = status, .body = message};
  }
  bool ended() const { return sessions_ == 0 && budget_.used() == 0; }

 private:
  http::ServerOptions options_{.max_body_bytes = 4096,
                               .read_timeout = std::chrono::milliseconds(50),
                               .idle_timeout = std::chrono::milliseconds(50)};
  http::Budget budget_{8192};
  int sessions_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  Host host;
  {
    net::io_context io;
    static const tcp::endpoint any(net::ip::address_v4::loopback(), 0);
    tcp::acceptor acceptor(io, any);
    tcp::socket client(io);
    client.connect(acceptor.local_endpoint());
    http::start_session(acceptor.accept(), nullptr, host);
    const std::size_t piece = std::size_t{1} + data[0];
    boost::system::error_code error;
    for (std::size_t at = 1; at < size && !error; at += piece) {
      client.write_some(net::buffer(data + at, std::min(piece, size - at)), error);
      io.poll();
    }
    client.shutdown(tcp::socket::shutdown_send, error);
    // Whoever has said all is answered, and the connection ends.
    io.run_for(std::chrono::seconds(5));
    client.close(error);
    io.restart();
    io.run_for(std::chrono::seconds(5));
  }
  if (!host.ended()) std::abort();
  return 0;
}
