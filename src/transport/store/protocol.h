// The store's wire format, shared by client and server. Integers are little-endian.
//
// A client greets with kGreeting, the job's secret, and a line's end. Then each request is {u8
// command, u32 key bytes, u32 value bytes, key, value} and each reply {u32 value bytes, value}.
// `get` is answered when the key exists. A server that reads anything else closes the connection.
#pragma once

#include <cstdint>
#include <string_view>

namespace sullae::store_protocol {

inline constexpr std::string_view kGreeting = "SULLAE-STORE-2 ";

enum class Command : std::uint8_t { set = 1, get = 2, add = 3 };

struct [[gnu::packed]] RequestHeader {
  Command command;
  std::uint32_t key_bytes;
  std::uint32_t value_bytes;
};

inline constexpr std::uint32_t kMaxSecretBytes = 256;
inline constexpr std::uint32_t kMaxKeyBytes = 1024;
inline constexpr std::uint32_t kMaxValueBytes = 1U << 24;

}  // namespace sullae::store_protocol
