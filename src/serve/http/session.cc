#include "serve/http/session.h"

#include <boost/asio/dispatch.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl.hpp>
#include <optional>

namespace sullae::serve {
namespace {

namespace beast = boost::beast;
namespace http = beast::http;
namespace net = boost::asio;
using tcp = net::ip::tcp;
using ErrorCode = boost::system::error_code;
using PlainStream = beast::tcp_stream;
using TlsStream = beast::ssl_stream<beast::tcp_stream>;

constexpr std::uint32_t kMaxHeaderBytes = 64 << 10;
constexpr auto kLinger = std::chrono::seconds(2);

std::string lower(beast::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

// What a client is told of a request that cannot be read.
std::pair<int, std::string> explain(const ErrorCode& error, const HttpServerOptions& options) {
  if (error == http::error::body_limit)
    return {413, "the body has more than " + std::to_string(options.max_body_bytes) +
                     " bytes, which is the most that is taken (--max-body-megabytes)"};
  if (error == http::error::header_limit) return {431, "the headers are too long"};
  if (error == beast::error::timeout) return {408, "the request took too long to arrive"};
  return {400, "the request is no HTTP: " + error.message()};
}

// All functions run in the connection's strand.
template <class Stream>
class StreamSession final : public Session,
                            public std::enable_shared_from_this<StreamSession<Stream>> {
 public:
  template <class... Args>
  StreamSession(SessionHost& host, Args&&... args)
      : host_(host), stream_(std::forward<Args>(args)...), timer_(stream_.get_executor()) {
    host_.add(*this);
  }
  ~StreamSession() override { host_.remove(*this); }

  void start() {
    net::dispatch(stream_.get_executor(), [self = this->shared_from_this()] {
      if constexpr (std::is_same_v<Stream, TlsStream>) {
        self->tcp_stream().expires_after(self->host_.options().read_timeout);
        self->stream_.async_handshake(net::ssl::stream_base::server, [self](ErrorCode error) {
          self->tcp_stream().expires_never();
          if (!error) self->read_header(self->host_.options().read_timeout);
        });
      } else {
        self->read_header(self->host_.options().read_timeout);
      }
    });
  }

  void close_if_idle() override {
    net::post(stream_.get_executor(), [weak = this->weak_from_this()] {
      const auto self = weak.lock();
      if (self && self->idle_) self->tcp_stream().close();
    });
  }

 private:
  beast::tcp_stream& tcp_stream() { return beast::get_lowest_layer(stream_); }

  void read_header(std::chrono::milliseconds limit) {
    if (host_.draining()) return;
    timed_out_ = false;
    parser_.emplace();
    parser_->body_limit(host_.options().max_body_bytes);
    parser_->header_limit(kMaxHeaderBytes);
    idle_ = buffer_.size() == 0;
    limit_reading(limit);
    http::async_read_header(stream_, buffer_, *parser_,
                            [self = this->shared_from_this()](ErrorCode error, std::size_t) {
                              self->idle_ = false;
                              self->on_header(error);
                            });
  }

  // The stream's own limit would close it, and the client would not hear why.
  void limit_reading(std::chrono::milliseconds limit) {
    timer_.expires_after(limit);
    timer_.async_wait([weak = this->weak_from_this()](ErrorCode error) {
      const auto self = weak.lock();
      if (error || !self) return;
      self->timed_out_ = true;
      self->tcp_stream().cancel();
    });
  }

  void on_header(ErrorCode error) {
    if (error) return on_read_error(error, parser_->got_some());
    limit_reading(host_.options().read_timeout);
    const auto& fields = parser_->get();
    if (beast::iequals(fields[http::field::expect], "100-continue") && !parser_->is_done())
      return write_continue();
    read_body();
  }

  // A client that asks sends its body only when it is told to.
  void write_continue() {
    continue_.emplace(http::status::continue_, 11);
    http::async_write(stream_, *continue_,
                      [self = this->shared_from_this()](ErrorCode error, std::size_t) {
                        if (!error) self->read_body();
                      });
  }

  void read_body() {
    http::async_read(stream_, buffer_, *parser_,
                     [self = this->shared_from_this()](ErrorCode error, std::size_t) {
                       if (error) return self->on_read_error(error, true);
                       self->handle();
                     });
  }

  void on_read_error(ErrorCode error, bool begun) {
    timer_.cancel();
    if (timed_out_) error = beast::error::timeout;
    // The client is gone, or never said anything.
    if (error == http::error::end_of_stream || error == net::error::operation_aborted ||
        error == net::error::connection_reset || error == net::error::eof ||
        error == net::ssl::error::stream_truncated || !begun)
      return;
    const auto [status, message] = explain(error, host_.options());
    keep_alive_ = false;
    write(host_.handler().refuse(status, message));
  }

  void handle() {
    auto message = parser_->release();
    keep_alive_ = message.keep_alive();
    version_ = message.version();
    HttpRequest request;
    request.method = std::string(message.method_string());
    const std::string target(message.target());
    const auto question = target.find('?');
    request.path = target.substr(0, question);
    if (question != std::string::npos) request.query = target.substr(question + 1);
    for (const auto& field : message) {
      auto& value = request.headers[lower(field.name_string())];
      if (!value.empty()) value += ", ";
      value += std::string(field.value());
    }
    request.body = std::move(message.body());
    timer_.cancel();
    host_.handler().handle(std::move(request), [self = this->shared_from_this()](
                                                   HttpResponse response) {
      net::dispatch(self->stream_.get_executor(), [self, response = std::move(response)]() mutable {
        self->write(std::move(response));
      });
    });
  }

  void write(HttpResponse response) {
    message_.emplace(static_cast<http::status>(response.status), version_);
    message_->set(http::field::server, "sullae");
    message_->set(http::field::content_type, response.content_type);
    for (const auto& [name, value] : response.headers) message_->set(name, value);
    message_->keep_alive(keep_alive_ && !host_.draining());
    message_->body() = std::move(response.body);
    message_->prepare_payload();
    tcp_stream().expires_after(host_.options().read_timeout);
    http::async_write(stream_, *message_,
                      [self = this->shared_from_this()](ErrorCode error, std::size_t) {
                        if (error) return;
                        self->tcp_stream().expires_never();
                        if (!self->message_->keep_alive()) return self->finish();
                        self->message_.reset();
                        self->read_header(self->host_.options().idle_timeout);
                      });
  }

  // Closing at once could destroy the answer on its way to a client that still sends.
  void finish() {
    ErrorCode ignored;
    tcp_stream().socket().shutdown(tcp::socket::shutdown_send, ignored);
    tcp_stream().expires_after(kLinger);
    discard();
  }
  void discard() {
    buffer_.clear();
    tcp_stream().async_read_some(buffer_.prepare(std::size_t{64} << 10),
                                 [self = this->shared_from_this()](ErrorCode error, std::size_t) {
                                   if (!error) self->discard();
                                 });
  }

  SessionHost& host_;
  Stream stream_;
  net::steady_timer timer_;  // of reading
  beast::flat_buffer buffer_;
  std::optional<http::request_parser<http::string_body>> parser_;
  std::optional<http::response<http::empty_body>> continue_;
  std::optional<http::response<http::string_body>> message_;
  unsigned version_ = 11;
  bool keep_alive_ = false;
  bool idle_ = false;
  bool timed_out_ = false;
};

}  // namespace

void start_session(tcp::socket socket, net::ssl::context* tls, SessionHost& host) {
  if (tls != nullptr) {
    std::make_shared<StreamSession<TlsStream>>(host, std::move(socket), *tls)->start();
  } else {
    std::make_shared<StreamSession<PlainStream>>(host, std::move(socket))->start();
  }
}

}  // namespace sullae::serve
