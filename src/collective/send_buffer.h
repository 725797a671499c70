// What an operation sends while it fills the memory that this is in.
#pragma once

#include <cstddef>
#include <vector>

namespace sullae {

/// `in`, or a copy of it where `out` is the same memory.
class SendBuffer {
 public:
  SendBuffer(const void* in, const void* out, std::size_t bytes)
      : data_(static_cast<const std::byte*>(in)) {
    if (in != out) return;
    copy_.assign(data_, data_ + bytes);
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
