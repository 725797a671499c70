#include "torch/zip_directory.h"

#include <cstring>

#include "sullae/error.h"

namespace sullae {
namespace {

constexpr std::size_t kEnd = 22;              // bytes of the end record, behind which nothing comes
constexpr std::size_t kEnd64 = 56;            // of the one with 64 bits
constexpr std::size_t kLocator = 20;          // of what says where that is
constexpr std::size_t kMember = 46;           // of a member in the directory, before its name
constexpr std::size_t kLocal = 30;            // of what stands before its content, before its name
constexpr std::uint32_t kNot32 = 0xFFFFFFFF;  // stands in 64 bits elsewhere

template <class Number>
Number number_at(const std::string& bytes, std::size_t at) {
  if (at + sizeof(Number) > bytes.size()) throw Error("a zip archive's directory is torn");
  Number number = 0;
  std::memcpy(&number, bytes.data() + at, sizeof number);  // both are little-endian
  return number;
}

void expect(const std::string& bytes, std::size_t at, const char* signature) {
  if (at + 4 > bytes.size() || std::memcmp(bytes.data() + at, signature, 4) != 0)
    throw Error("a zip archive's directory is damaged");
}

std::string read_bytes(const ReadAt& read, std::uint64_t position, std::size_t bytes) {
  std::string text(bytes, '\0');
  read(position, text.data(), bytes);
  return text;
}

struct Directory {
  std::uint64_t begin = 0;
  std::uint64_t bytes = 0;
  std::uint64_t members = 0;
};

Directory find_directory(const ReadAt& read, std::uint64_t length) {
  if (length < kEnd) throw Error("a zip archive is torn");
  const auto end = read_bytes(read, length - kEnd, kEnd);
  expect(end, 0, "PK\5\6");
  Directory found{.begin = number_at<std::uint32_t>(end, 16),
                  .bytes = number_at<std::uint32_t>(end, 12),
                  .members = number_at<std::uint16_t>(end, 10)};
  const bool is_64 = found.begin == kNot32 || found.bytes == kNot32 || found.members == 0xFFFF;
  if (!is_64) return found;
  if (length < kEnd + kLocator) throw Error("a zip archive is torn");
  const auto locator = read_bytes(read, length - kEnd - kLocator, kLocator);
  expect(locator, 0, "PK\6\7");
  const auto at = number_at<std::uint64_t>(locator, 8);
  if (at > length || length - at < kEnd64) throw Error("a zip archive's directory is damaged");
  const auto end64 = read_bytes(read, at, kEnd64);
  expect(end64, 0, "PK\6\6");
  return {.begin = number_at<std::uint64_t>(end64, 48),
          .bytes = number_at<std::uint64_t>(end64, 40),
          .members = number_at<std::uint64_t>(end64, 32)};
}

// Replaces what did not fit into 32 bits, in the order in which it stands.
void read_wide_numbers(const std::string& extra, std::uint64_t& bytes, std::uint64_t& stored,
                       std::uint64_t& local) {
  for (std::size_t at = 0; at + 4 <= extra.size();) {
    const auto kind = number_at<std::uint16_t>(extra, at);
    const auto size = number_at<std::uint16_t>(extra, at + 2);
    at += 4;
    if (kind == 1) {
      std::size_t next = at;
      for (std::uint64_t* const number : {&bytes, &stored, &local}) {
        if (*number != kNot32) continue;
        *number = number_at<std::uint64_t>(extra, next);
        next += sizeof(std::uint64_t);
      }
    }
    at += size;
  }
}

}  // namespace

std::vector<ZipMember> zip_members(const ReadAt& read, std::uint64_t length) {
  const Directory directory = find_directory(read, length);
  if (directory.begin > length || directory.bytes > length - directory.begin)
    throw Error("a zip archive's directory is damaged");
  const auto text = read_bytes(read, directory.begin, directory.bytes);
  std::vector<ZipMember> members;
  std::size_t at = 0;
  for (std::uint64_t i = 0; i < directory.members; ++i) {
    expect(text, at, "PK\1\2");
    const auto flags = number_at<std::uint16_t>(text, at + 8);
    std::uint64_t stored = number_at<std::uint32_t>(text, at + 20);
    std::uint64_t bytes = number_at<std::uint32_t>(text, at + 24);
    const auto name_bytes = number_at<std::uint16_t>(text, at + 28);
    const auto extra_bytes = number_at<std::uint16_t>(text, at + 30);
    const auto comment_bytes = number_at<std::uint16_t>(text, at + 32);
    std::uint64_t local = number_at<std::uint32_t>(text, at + 42);
    const std::size_t end = at + kMember + name_bytes + extra_bytes + comment_bytes;
    if (end > text.size()) throw Error("a zip archive's directory is torn");
    read_wide_numbers(text.substr(at + kMember + name_bytes, extra_bytes), bytes, stored, local);
    if (local > length || stored > length - local)
      throw Error("a zip archive's directory is damaged");

    const auto before = read_bytes(read, local, kLocal);
    expect(before, 0, "PK\3\4");
    ZipMember member{.name = text.substr(at + kMember, name_bytes),
                     .begin = local + kLocal + number_at<std::uint16_t>(before, 26) +
                              number_at<std::uint16_t>(before, 28),
                     .bytes = stored,
                     .checksums = {directory.begin + at + 16}};
    constexpr std::uint16_t kChecksumBehind = 1U << 3U;
    if ((flags & kChecksumBehind) != 0) {
      expect(read_bytes(read, member.begin + stored, 4), 0, "PK\7\x8");
      member.checksums.push_back(member.begin + stored + 4);
    } else {
      member.checksums.push_back(local + 14);
    }
    members.push_back(std::move(member));
    at = end;
  }
  return members;
}

}  // namespace sullae
