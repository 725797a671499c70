// An answer whose body is sent while it is made.
#pragma once

#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "http/exchange.h"

namespace sullae::http {

template <class Message>
void set_fields(Message& message, const Response& response) {
  message.set(boost::beast::http::field::server, "sullae");
  message.set(boost::beast::http::field::content_type, response.content_type);
  for (const auto& [name, value] : response.headers) message.set(name, value);
}

/// In chunks (RFC 9112, section 7.1), unless the client is too old for them: the connection's end
/// is the body's then. All functions run in the strand of `stream`. Lives until it has called
/// `done`, or the client is gone, and the source of the pieces no longer.
template <class Stream>
class PieceWriter : public std::enable_shared_from_this<PieceWriter<Stream>> {
 public:
  /// Called when all is sent, with whether the connection goes on. It keeps the stream.
  using Done = std::function<void(bool)>;

  /// `limit`: how long the client may take for a piece.
  PieceWriter(Stream& stream, Response response, unsigned version, bool keep_alive,
              std::chrono::milliseconds limit, Done done)
      : stream_(stream),
        limit_(limit),
        done_(std::move(done)),
        head_(static_cast<boost::beast::http::status>(response.status), version),
        more_(std::move(response.more)),
        piece_(std::move(response.body)) {
    set_fields(head_, response);
    constexpr unsigned kWithoutChunks = 10;
    head_.chunked(version > kWithoutChunks);
    head_.keep_alive(keep_alive && head_.chunked());
  }

  void start() {
    limit_sending();
    boost::beast::http::async_write_header(stream_, head_writer_, when_sent([](auto& self) {
                                             self.piece_.empty() ? self.ask() : self.write();
                                           }));
  }

 private:
  void limit_sending() { boost::beast::get_lowest_layer(stream_).expires_after(limit_); }

  template <class Next>
  auto when_sent(const Next& next) {
    return [self = this->shared_from_this(), next](const auto& error, std::size_t) {
      if (!error) next(*self);
    };
  }

  void write() {
    limit_sending();
    const auto sent = when_sent([](auto& self) { self.ask(); });
    const auto piece = boost::asio::buffer(piece_);
    if (head_.chunked()) {
      boost::asio::async_write(stream_, boost::beast::http::make_chunk(piece), sent);
    } else {
      boost::asio::async_write(stream_, piece, sent);
    }
  }

  void ask() {
    boost::beast::get_lowest_layer(stream_).expires_never();
    more_([self = this->shared_from_this()](std::string piece) {
      boost::asio::post(self->stream_.get_executor(), [self, piece = std::move(piece)]() mutable {
        self->piece_ = std::move(piece);
        self->piece_.empty() ? self->end() : self->write();
      });
    });
  }

  void end() {
    const auto ended = [](auto& self) {
      boost::beast::get_lowest_layer(self.stream_).expires_never();
      self.done_(self.head_.keep_alive());
    };
    if (!head_.chunked()) return ended(*this);
    limit_sending();
    boost::asio::async_write(stream_, boost::beast::http::make_chunk_last(), when_sent(ended));
  }

  Stream& stream_;
  std::chrono::milliseconds limit_;
  Done done_;
  boost::beast::http::response<boost::beast::http::empty_body> head_;
  boost::beast::http::response_serializer<boost::beast::http::empty_body> head_writer_{head_};
  NextPiece more_;
  std::string piece_;
};

}  // namespace sullae::http
