#include "http/session.h"

#include <algorithm>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl.hpp>
#include <functional>
#include <optional>
#include <utility>

#include "base/ascii.h"
#include "http/framing.h"
#include "http/pieces.h"

namespace sullae::http {
namespace {

namespace beast = boost::beast;
namespace net = boost::asio;
using tcp = net::ip::tcp;
using ErrorCode = boost::system::error_code;
using PlainStream = beast::tcp_stream;
using TlsStream = beast::ssl_stream<beast::tcp_stream>;

constexpr std::uint32_t kMaxHeaderBytes = 64 << 10;
constexpr std::ptrdiff_t kMostFields = 100;
// A header, or what goes with a chunk of a body: its extensions, and trailers after the last one.
constexpr std::size_t kMaxBufferBytes = std::size_t{128} << 10;
// Read also where the request is refused, since that is cheaper than another connection.
constexpr std::uint64_t kSmallBody = 64 << 10;
constexpr std::uint64_t kAnyBody = ~std::uint64_t{0};
constexpr std::size_t kReadBytes = std::size_t{16} << 10;
// Of an answer, to be taken within read_timeout.
constexpr std::size_t kLeastPart = std::size_t{64} << 10;
constexpr auto kLinger = std::chrono::seconds(2);
// For a request that is on its way when the server is to end.
constexpr std::chrono::milliseconds kLastMoment{100};
// What a client may still send while it is being told to go.
constexpr std::size_t kMaxDiscarded = std::size_t{64} << 20;

// All functions run in the connection's strand.
template <class Stream>
class StreamSession final : public Session,
                            public std::enable_shared_from_this<StreamSession<Stream>> {
 public:
  template <class... Args>
  StreamSession(SessionHost& host, Args&&... args)
      : host_(host), stream_(std::forward<Args>(args)...), timer_(stream_.get_executor()) {}
  ~StreamSession() override { host_.remove(*this); }

  void start() {
    host_.add(*this);  // whoever finds it there may ask for a pointer to it
    net::dispatch(stream_.get_executor(), [self = this->shared_from_this()] {
      if constexpr (std::is_same_v<Stream, TlsStream>) {
        self->tcp_stream().expires_after(self->host_.options().read_timeout);
        self->stream_.async_handshake(net::ssl::stream_base::server, [self](ErrorCode error) {
          self->tcp_stream().expires_never();
          if (!error) self->await_request(self->host_.options().read_timeout);
        });
      } else {
        self->await_request(self->host_.options().read_timeout);
      }
    });
  }

  void close_if_idle() override {
    net::post(stream_.get_executor(), [weak = this->weak_from_this()] {
      const auto self = weak.lock();
      if (!self || !self->idle_ || self->has_bytes()) return;
      if (self->had_request_)
        self->tcp_stream().close();
      else
        self->limit_reading(kLastMoment);
    });
  }

 private:
  beast::tcp_stream& tcp_stream() { return beast::get_lowest_layer(stream_); }

  // That came, and were not read yet.
  bool has_bytes() {
    ErrorCode error;
    return buffer_.size() > 0 || tcp_stream().socket().available(error) > 0;
  }

  // Waits for a request at most `limit`. Once it has begun, it has read_timeout to come.
  void await_request(std::chrono::milliseconds limit) {
    if (host_.draining()) {
      // What was sent before is answered.
      if (had_request_ && !has_bytes()) return;
      limit = std::min(limit, kLastMoment);
    }
    timed_out_ = false;
    if (buffer_.size() > 0) return read_header();
    buffer_.shrink_to_fit();  // connections that wait for their next request are many
    idle_ = true;
    limit_reading(limit);
    stream_.async_read_some(buffer_.prepare(kReadBytes),
                            [self = this->shared_from_this()](ErrorCode error, std::size_t bytes) {
                              self->idle_ = false;
                              self->timer_.cancel();
                              if (error) return;  // the client is gone, or never said anything
                              self->buffer_.commit(bytes);
                              self->read_header();
                            });
  }

  void read_header() {
    had_request_ = true;
    limit_reading(host_.options().read_timeout);
    parser_.emplace();
    parser_->body_limit(host_.options().max_body_bytes);
    parser_->header_limit(kMaxHeaderBytes);
    parser_->on_chunk_header(check_chunk_);
    beast::http::async_read_header(stream_, buffer_, *parser_,
                                   [self = this->shared_from_this()](ErrorCode error, std::size_t) {
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

  // Trailers, which come with the body, are no part of it: they could bring a second token.
  void on_header(ErrorCode error) {
    head_only_ = false;
    if (error) return on_read_error(error, parser_->got_some());
    const auto& header = parser_->get();
    version_ = header.version();
    head_only_ = header.method() == beast::http::verb::head;
    if (std::distance(header.begin(), header.end()) > kMostFields)
      return refuse(431, "there are too many headers");
    if (auto doubt = doubt_about(header)) return refuse(400, *doubt);
    const auto text = header.target();
    auto target = parse_target({text.data(), text.size()});
    if (!target) return refuse(400, "the target is no path");
    request_ = {};
    request_.method = std::string(header.method_string());
    request_.path = std::move(target->path);
    request_.query = std::move(target->query);
    for (const auto& field : header) {
      auto& value =
          request_.headers[to_lower({field.name_string().data(), field.name_string().size()})];
      if (!value.empty()) value += ", ";
      value += std::string(field.value());
    }
    if (!target->host.empty()) request_.headers["host"] = std::move(target->host);
    const bool asks = header.version() >= 11 &&
                      beast::iequals(header[beast::http::field::expect], "100-continue");
    refusal_ = host_.handler().refuse_early(request_);
    if (refusal_ && (asks || parser_->content_length_remaining().value_or(kAnyBody) > kSmallBody)) {
      timer_.cancel();
      keep_alive_ = parser_->is_done() && header.keep_alive();
      return write(*std::exchange(refusal_, std::nullopt));
    }
    request_.memory = std::make_shared<Reservation>(host_.budget());
    if (asks && !parser_->is_done()) return write_continue();
    read_body();
  }

  // A client that asks sends its body only when it is told to.
  void write_continue() {
    continue_.emplace(beast::http::status::continue_, 11);
    beast::http::async_write(stream_, *continue_,
                             [self = this->shared_from_this()](ErrorCode error, std::size_t) {
                               if (!error) self->read_body();
                             });
  }

  // Memory is taken for what has come, not for what was announced, which costs a client nothing.
  void read_body() {
    if (parser_->is_done()) return handle();
    beast::http::async_read_some(
        stream_, buffer_, *parser_,
        [self = this->shared_from_this()](ErrorCode error, std::size_t) {
          if (error) return self->on_read_error(error, true);
          const auto& body = self->parser_->get().body();
          // What was announced is in one piece; else the text may be as large again while it grows.
          const bool announced = self->parser_->content_length().has_value();
          const std::size_t bytes = announced ? body.size() : 2 * body.size();
          if (bytes > self->request_.memory->budget().limit())
            return self->refuse(413,
                                "the body takes more than all requests together may "
                                "(--max-inflight-megabytes)");
          if (!self->request_.memory->grow_to(bytes)) return self->refuse(503, kNoMemoryLeft);
          self->read_body();
        });
  }

  void on_read_error(ErrorCode error, bool begun) {
    timer_.cancel();
    if (timed_out_) error = beast::error::timeout;
    // The client is gone, or never said anything.
    if (error == beast::http::error::end_of_stream || error == net::error::operation_aborted ||
        error == net::error::connection_reset || error == net::error::eof ||
        error == net::ssl::error::stream_truncated || !begun)
      return forget_request();
    const auto [status, message] = explain(error, host_.options().max_body_bytes);
    refuse(status, message);
  }

  void forget_request() {
    const auto bytes = request_.memory ? request_.memory->bytes() : 0;
    request_ = {};
    parser_.reset();
    host_.handler().gave_up(bytes);
  }

  // Nothing more is read from this connection.
  void refuse(int status, const std::string& message) {
    timer_.cancel();
    keep_alive_ = false;
    forget_request();
    write(host_.handler().refuse(status, message));
  }

  void handle() {
    timer_.cancel();
    keep_alive_ = parser_->keep_alive();
    if (refusal_) {
      request_ = {};
      parser_.reset();
      return write(*std::exchange(refusal_, std::nullopt));
    }
    request_.body = std::move(parser_->get().body());
    parser_.reset();
    // Destroyed in turn: the ticket is given back behind the session, which the server outlives.
    host_.handler().handle(
        std::exchange(request_, {}),
        [ticket = host_.begin_answer(), self = this->shared_from_this()](Response response) {
          net::dispatch(self->stream_.get_executor(),
                        [self, response = std::move(response)]() mutable {
                          self->write(std::move(response));
                        });
        });
  }

  void write(Response response) {
    if (response.more && !head_only_) return write_in_pieces(std::move(response));
    sent_memory_ = std::move(response.memory);
    message_.emplace(static_cast<beast::http::status>(response.status), version_);
    set_fields(*message_, response);
    message_->keep_alive(keep_alive_ && !host_.draining());
    if (head_only_) {
      message_->content_length(response.body.size());
    } else {
      message_->body() = std::move(response.body);
      message_->prepare_payload();
    }
    // It would be said to be that of the answer which is known (RFC 9110, section 8.6).
    if (message_->result() == beast::http::status::not_modified)
      message_->content_length(boost::none);
    serializer_.emplace(*message_);
    write_some(kLeastPart);
  }

  // Whoever takes a part in time has as long for the next one. `taken`: since the limit was set.
  void write_some(std::size_t taken) {
    const bool has_part = taken >= kLeastPart;
    if (has_part) tcp_stream().expires_after(host_.options().read_timeout);
    const std::size_t before = has_part ? 0 : taken;
    beast::http::async_write_some(
        stream_, *serializer_,
        [self = this->shared_from_this(), before](ErrorCode error, std::size_t bytes) {
          if (error) return;
          if (!self->serializer_->is_done()) return self->write_some(before + bytes);
          self->tcp_stream().expires_never();
          self->serializer_.reset();
          const auto sent = self->sent_memory_ ? self->sent_memory_->bytes() : 0;
          self->sent_memory_.reset();
          if (!self->message_->keep_alive()) return self->finish();
          self->message_.reset();
          if (sent > 0) self->host_.handler().gave_up(sent);
          self->await_request(self->host_.options().idle_timeout);
        });
  }

  void write_in_pieces(Response response) {
    std::make_shared<PieceWriter<Stream>>(stream_, std::move(response), version_,
                                          keep_alive_ && !host_.draining(),
                                          host_.options().read_timeout,
                                          [self = this->shared_from_this()](bool goes_on) {
                                            if (!goes_on) return self->finish();
                                            self->await_request(self->host_.options().idle_timeout);
                                          })
        ->start();
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
    tcp_stream().async_read_some(
        buffer_.prepare(std::size_t{64} << 10),
        [self = this->shared_from_this()](ErrorCode error, std::size_t bytes) {
          self->discarded_ += bytes;
          if (!error && self->discarded_ < kMaxDiscarded) self->discard();
        });
  }

  SessionHost& host_;
  Stream stream_;
  net::steady_timer timer_;  // of reading
  beast::flat_buffer buffer_{kMaxBufferBytes};
  Request request_;
  std::optional<Response>
      refusal_;  // of a request whose short body is read, so that the connection can go on
  // A line feed in an extension would end the line for another server (RFC 9112, section 7.1.1).
  std::function<void(std::uint64_t, beast::string_view, ErrorCode&)> check_chunk_ =
      [](std::uint64_t, beast::string_view extensions, ErrorCode& error) {
        const bool control = std::ranges::any_of(extensions, [](char c) {
          return (static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7f;
        });
        if (control) error = beast::http::error::bad_chunk_extension;
      };
  std::optional<beast::http::request_parser<beast::http::string_body>> parser_;
  std::optional<beast::http::response<beast::http::empty_body>> continue_;
  std::optional<beast::http::response<beast::http::string_body>> message_;
  std::optional<beast::http::response_serializer<beast::http::string_body>> serializer_;
  std::shared_ptr<Reservation> sent_memory_;  // of message_
  unsigned version_ = 11;
  std::size_t discarded_ = 0;
  bool keep_alive_ = false;
  bool idle_ = false;
  bool had_request_ = false;
  bool timed_out_ = false;
  bool head_only_ = false;  // the request is HEAD: its answer has no body
};

}  // namespace

void start_session(tcp::socket socket, net::ssl::context* tls, SessionHost& host) {
  if (tls != nullptr) {
    std::make_shared<StreamSession<TlsStream>>(host, std::move(socket), *tls)->start();
  } else {
    std::make_shared<StreamSession<PlainStream>>(host, std::move(socket))->start();
  }
}

}  // namespace sullae::http
