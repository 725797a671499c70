// What an operation sends while it fills the memory that this is in.
#pragma once

#include <cstddef>
#include <vector>

#include "base/copy.h"

namespace sullae {

/// `in`, or a copy of it where `out` is the same memory.
class SendBuffer {
 public:
  SendBuffer(const void* in, const void* out, std::size_t bytes)
      : copy_(in == out ? bytes : 0), data_(static_cast<const std::byte*>(in)) {
    if (in != out) return;
    copy_bytes(copy_.data(), in, bytes);
    data_ = copy_.data();
  }
  SendBuffer(const SendBuffer&) = delete;
  SendBuffer& operator=(const SendBuffer&) = delete;

  const std::byte* data() const { return data_; }

 private:
  std::vector<std::byte> copy_;
  const std::byte* data_;
};

}  // namespace sullae
