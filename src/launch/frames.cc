#include "launch/frames.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "sullae/error.h"

namespace sullae {
namespace {

struct [[gnu::packed]] Header {
  std::uint32_t bytes;
  FrameType type;
  std::int32_t rank;
};

constexpr std::uint32_t kMostBytes = 1U << 26;

}  // namespace

std::string frame_of(FrameType type, std::int32_t rank, std::string_view payload) {
  const Header header{static_cast<std::uint32_t>(payload.size()), type, rank};
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
  return bytes.append(payload);
}

bool write_frame(int fd, FrameType type, std::int32_t rank, std::string_view payload) {
  const std::string bytes = frame_of(type, rank, payload);
  std::string_view rest = bytes;
  while (!rest.empty()) {
    const auto n = ::write(fd, rest.data(), rest.size());
    if (n > 0) {
      rest.remove_prefix(static_cast<std::size_t>(n));
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

std::optional<Frame> FrameReader::next() {
  Header header{};
  if (buffer_.size() < sizeof header) return std::nullopt;
  std::memcpy(&header, buffer_.data(), sizeof header);
  if (header.bytes > kMostBytes || header.type < FrameType::start ||
      header.type > FrameType::taken_back) {
    throw NoFrame(
        "what arrived is not what an agent of sullae run sends: does the remote shell print a "
        "greeting?");
  }
  if (buffer_.size() < sizeof header + header.bytes) return std::nullopt;
  Frame frame{header.type, header.rank, buffer_.substr(sizeof header, header.bytes)};
  buffer_.erase(0, sizeof header + header.bytes);
  return frame;
}

}  // namespace sullae
