// What a server hears, and how it answers.
#pragma once

#include <fmt/format.h>

#include <string_view>
#include <utility>
#include <vector>

#include "ps/packet.h"

namespace sullae::ps {

struct Message {
  zmq::message_t from;  // ZeroMQ's name of the sender
  Header header;
  std::vector<zmq::message_t> parts;
};

/// Used by the thread that has the socket.
class Replies {
 public:
  explicit Replies(zmq::socket_t& socket) : socket_(&socket) {}

  template <class... Parts>
  void send(zmq::message_t& to, const Header& header, Parts... parts) {
    socket_->send(to, zmq::send_flags::sndmore);
    send_message(*socket_, header, std::move(parts)...);
  }
  void refuse(Message& message, std::string_view why) {
    send(message.from, {.kind = Kind::refused, .item = message.header.item}, message_of(why));
  }

 private:
  zmq::socket_t* socket_;
};

}  // namespace sullae::ps
