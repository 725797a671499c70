// The format: libtorch's archive of the model, with all else in a member "sullae_checkpoint" beside
// the model's own, and then a footer of 32 bytes. Readers of zip files look for what they need from
// the end and pass over the footer.
//
//   offset 0   CRC-32        u32, of the archive
//          4   version       u32, 2
//          8   length        u64, of the archive, in bytes
//         16   zero          u64
//         24   "SULLAECP"    8 bytes
// Integers are little-endian.
#include "torch/checkpoint_file.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "sullae/error.h"

namespace sullae {

std::uint32_t extend_crc(std::uint32_t crc, const void* data, std::size_t bytes) {
  if (bytes == 0) return crc;  // of no address it would be the first one's
  return static_cast<std::uint32_t>(::crc32_z(crc, static_cast<const Bytef*>(data), bytes));
}

CheckedFile::CheckedFile(const std::filesystem::path& file)
    : name_(file.string()), stream_(file, std::ios::binary) {
  if (!stream_)
    throw CheckpointError(
        fmt::format("checkpoint {}: cannot be opened: {}", name_, std::strerror(errno)));
  char start[4] = {};
  stream_.read(start, sizeof start);
  const bool archive = std::memcmp(start, "PK\3\4", sizeof start) == 0;
  stream_.clear();
  stream_.seekg(0, std::ios::end);
  const auto size = static_cast<std::uint64_t>(stream_.tellg());
  if (!archive)
    throw CheckpointError(fmt::format("checkpoint {}: is not a Sullae checkpoint", name_));
  if (size >= sizeof footer_) {
    stream_.seekg(static_cast<std::streamoff>(size - sizeof footer_));
    stream_.read(reinterpret_cast<char*>(&footer_), sizeof footer_);
  }
  if (size < sizeof footer_ ||
      std::memcmp(footer_.magic, CheckpointFooter{}.magic, sizeof footer_.magic) != 0) {
    throw CheckpointError(
        fmt::format("checkpoint {}: is torn, or an archive of another program: it does not end "
                    "as a checkpoint "
                    "does",
                    name_));
  }
  if (footer_.version != CheckpointFooter{}.version) {
    throw CheckpointError(fmt::format("checkpoint {}: has version {}, expected {}", name_,
                                      footer_.version, CheckpointFooter{}.version));
  }
  if (footer_.length != size - sizeof footer_) {
    throw CheckpointError(fmt::format("checkpoint {}: is torn: {} bytes expected, it has {}", name_,
                                      footer_.length + sizeof footer_, size));
  }
  verify();
}

std::size_t CheckedFile::read(std::uint64_t position, void* into, std::size_t bytes) {
  stream_.clear();
  stream_.seekg(static_cast<std::streamoff>(position));
  stream_.read(static_cast<char*>(into), static_cast<std::streamsize>(bytes));
  return static_cast<std::size_t>(stream_.gcount());
}

void CheckedFile::verify() {
  std::vector<char> buffer(std::size_t{1} << 20);
  std::uint32_t crc = 0;
  std::uint64_t left = footer_.length;
  stream_.clear();
  stream_.seekg(0);
  while (left > 0) {
    stream_.read(buffer.data(),
                 static_cast<std::streamsize>(std::min<std::uint64_t>(left, buffer.size())));
    const auto n = static_cast<std::uint64_t>(stream_.gcount());
    if (n == 0) throw CheckpointError(fmt::format("checkpoint {}: cannot be read", name_));
    crc = extend_crc(crc, buffer.data(), n);
    left -= n;
  }
  if (crc != footer_.crc)
    throw CheckpointError(
        fmt::format("checkpoint {}: is damaged: its checksum does not fit", name_));
}

}  // namespace sullae
