// What travels between workers and servers: ZeroMQ messages of a header, and of what the kind says.
#pragma once

#include <bit>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>
#include <zmq.hpp>

#include "base/copy.h"
#include "base/hash.h"

namespace sullae::ps {

static_assert(std::endian::native == std::endian::little, "headers travel as they are");

enum class Kind : std::uint32_t {
  // A worker's.
  hello,       // + json: who it is, the rule, and what of the group is on this server
  first,       // + values of a slice, where the server has none
  pull,        // asks for a slice's values; of a table, whether it may go on
  push,        // + which ranges have a gradient, + gradients; of a table + rows' numbers, + their
               // gradients
  look_up,     // + rows' numbers
  pull_state,  // asks for the rule's state of a slice; of a table + a place: rows from there on
  put_state,   // + that state, + values, of worker 0; of a table + rows
  clear,       // + a number of steps: a table is to have no rows, after so many
  query,       // where the answer to a push is long in coming
  rest,        // the others need not wait for this worker until it pulls
  alive,
  alive_at_rest,
  leave,
  fail,  // the same of one that has not come to its end
  // A server's.
  welcome,  // + json: what was taken of the worker, and whether it is to give values
  values,   // + values of a slice: the worker may go on; of a table nothing, or the rows that were
            // asked for
  state,    // + the rule's state of a slice, or rows of a table
  stored,   // what put_state brought, or the rows are gone
  resting,
  waiting,  // the push was taken; `worker` is whom its answer waits for
  again,    // the push has not come: send it
  unknown,  // this server does not know the worker (any more): say hello
  refused,  // + text: why
};

/// Of a worker's messages, whoever it is.
constexpr bool needs_answer(Kind kind) {
  return kind != Kind::alive && kind != Kind::alive_at_rest && kind != Kind::leave &&
         kind != Kind::fail;
}

struct Header {
  static constexpr std::uint32_t kMagic = 0x53507333;  // "3sPS"

  std::uint32_t magic = kMagic;
  Kind kind = Kind::alive;
  std::int32_t worker = 0;
  std::uint32_t item = 0;   // of the group: a slice's number, or a table's
  std::uint64_t group = 0;  // of workers that train one thing: see group_of()
  std::uint64_t incarnation = 0;
  std::int64_t step = 0;  // of the worker's
  double learning_rate = 0;
  std::int64_t lead = 0;
  std::int64_t updates = 0;
  std::uint64_t question = 0;  // its number, which an answer repeats
};
static_assert(std::is_trivially_copyable_v<Header> && sizeof(Header) == 72);

/// What header.group is: of one name in one job, so that nothing of another job's, or of nobody's,
/// is heard.
inline std::uint64_t group_of(std::string_view name, std::string_view secret) {
  return fnv1a(name, fnv1a(secret));
}

/// Of a message, at most.
inline constexpr std::int64_t kMostPart = std::int64_t{1} << 30;

inline zmq::message_t message_of(const Header& header) { return {&header, sizeof header}; }
inline zmq::message_t number_message(std::int64_t number) { return {&number, sizeof number}; }
inline zmq::message_t message_of(std::string_view text) { return {text.data(), text.size()}; }

/// Each part is sent from where it is, and freed.
template <class... Parts>
void send_message(zmq::socket_t& socket, const Header& header, Parts... parts) {
  std::size_t left = sizeof...(parts);
  const auto flags = [&] {
    return left > 0 ? zmq::send_flags::sndmore : zmq::send_flags::none;
  };
  socket.send(message_of(header), flags());
  ((--left, socket.send(parts, flags())), ...);
}

// Sent from where it is, which lives as long as that takes.
inline zmq::message_t message_on(const std::shared_ptr<std::vector<float>>& values) {
  using Owner = std::shared_ptr<std::vector<float>>;
  auto owner = std::make_unique<Owner>(values);
  zmq::message_t message(
      values->data(), values->size() * sizeof(float),
      [](void*, void* hint) { delete static_cast<Owner*>(hint); }, owner.get());
  static_cast<void>(owner.release());
  return message;
}

// ZeroMQ hands out messages where they arrived, the small ones at any address.
inline bool is_aligned(const zmq::message_t& message) {
  return reinterpret_cast<std::uintptr_t>(message.data()) % alignof(float) == 0;
}

// Until something comes, a signal, or the limit.
inline void wait_for(zmq::pollitem_t* items, std::size_t count, std::chrono::milliseconds limit) {
  try {
    zmq::poll(items, count, limit);
  } catch (const zmq::error_t& error) {
    if (error.num() != EINTR) throw;
  }
}

template <class T>
zmq::message_t copy_of(const std::vector<T>& values) {
  return {values.data(), values.size() * sizeof(T)};
}

template <class T>
std::vector<T> vector_of(const zmq::message_t& message) {
  std::vector<T> values(message.size() / sizeof(T));
  copy_bytes(values.data(), message.data(), values.size() * sizeof(T));
  return values;
}

/// A message's numbers: where they are if they may be read there, else a copy. It does not outlive
/// the message.
class Floats {
 public:
  explicit Floats(const zmq::message_t& message)
      : copy_(is_aligned(message) ? std::vector<float>() : vector_of<float>(message)),
        data_(copy_.empty() ? static_cast<const float*>(message.data()) : copy_.data()) {}
  Floats(const Floats&) = delete;
  Floats& operator=(const Floats&) = delete;
  const float* data() const { return data_; }

 private:
  std::vector<float> copy_;
  const float* data_;
};

// Where it is, at any address.
template <class T>
std::span<const T> span_of(const zmq::message_t& message) {
  static_assert(alignof(T) == 1);
  return {static_cast<const T*>(message.data()), message.size() / sizeof(T)};
}

}  // namespace sullae::ps
