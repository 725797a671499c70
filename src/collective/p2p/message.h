// A message that carries the signature in front of the values, so that who receives it knows what
// it is of.
#pragma once

#include <cstddef>
#include <memory>

#include "base/copy.h"
#include "collective/p2p/p2p.h"

namespace sullae::p2p {

class Message {
 public:
  explicit Message(std::size_t payload_bytes)
      : size_(kHeader + payload_bytes),
        bytes_(std::make_unique_for_overwrite<std::byte[]>(size_)) {}
  Message(const Signature& signature, const void* payload, std::size_t payload_bytes)
      : Message(payload_bytes) {
    copy_bytes(bytes_.get(), &signature, kHeader);
    copy_bytes(this->payload(), payload, payload_bytes);
  }

  std::byte* data() { return bytes_.get(); }
  std::size_t size() const { return size_; }
  std::byte* payload() { return bytes_.get() + kHeader; }
  Signature signature() const {
    Signature value;
    copy_bytes(&value, bytes_.get(), kHeader);
    return value;
  }

  void send(Exchange& exchange, int peer, std::uint64_t step) {
    Request request = exchange.send(peer, step, data(), size());
    exchange.wait(request);
  }
  /// Throws MismatchError unless the message that comes carries `expected`.
  void receive(Exchange& exchange, int peer, std::uint64_t step, const Signature& expected) {
    Request request = exchange.receive(peer, step, data(), size());
    exchange.wait(request);
    exchange.check_same(expected, peer, signature());
  }

 private:
  static constexpr std::size_t kHeader = sizeof(Signature);

  std::size_t size_;
  std::unique_ptr<std::byte[]> bytes_;
};

}  // namespace sullae::p2p
