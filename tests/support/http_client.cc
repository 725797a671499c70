#include "support/http_client.h"

#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>

namespace sullae::testing {

namespace beast = boost::beast;
namespace http = beast::http;
namespace net = boost::asio;

class HttpClient::Impl {
 public:
  explicit Impl(std::uint16_t port) : stream(io) {
    stream.connect({net::ip::make_address("127.0.0.1"), port});
  }
  net::io_context io;
  beast::tcp_stream stream;
  beast::flat_buffer buffer;
};

HttpClient::HttpClient(std::uint16_t port) : impl_(std::make_unique<Impl>(port)) {}
HttpClient::~HttpClient() = default;

HttpAnswer HttpClient::ask(const std::string& method, const std::string& target,
                           const std::string& body,
                           const std::map<std::string, std::string>& headers) {
  http::request<http::string_body> request(http::string_to_verb(method), target, 11);
  request.set(http::field::host, "localhost");
  if (method == "POST") request.set(http::field::content_type, "application/json");
  for (const auto& [name, value] : headers) request.set(name, value);
  request.body() = body;
  request.prepare_payload();
  http::write(impl_->stream, request);
  return method == "HEAD" ? read_head() : read_answer();
}

void HttpClient::send(const std::string& bytes) {
  net::write(impl_->stream.socket(), net::buffer(bytes));
}

void HttpClient::finish_sending() {
  impl_->stream.socket().shutdown(net::ip::tcp::socket::shutdown_send);
}

HttpAnswer HttpClient::read_answer() { return read(/*with_body=*/true); }
HttpAnswer HttpClient::read_head() { return read(/*with_body=*/false); }

HttpAnswer HttpClient::read(bool with_body) {
  http::response_parser<http::string_body> parser;
  parser.body_limit(boost::none);
  parser.skip(!with_body);
  http::read(impl_->stream, impl_->buffer, parser);
  const auto message = parser.release();
  HttpAnswer answer{
      .status = static_cast<int>(message.result_int()), .body = message.body(), .headers = {}};
  for (const auto& field : message) {
    std::string name(field.name_string());
    for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    answer.headers[name] = std::string(field.value());
  }
  return answer;
}

bool HttpClient::is_closed() {
  char byte = 0;
  boost::system::error_code error;
  impl_->stream.socket().read_some(net::buffer(&byte, 1), error);
  return static_cast<bool>(error);
}

}  // namespace sullae::testing
