#include "pipeline/contents.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/dump_json.h"
#include "base/file.h"
#include "base/hash.h"
#include "kafka/address.h"
#include "storage/storage.h"
#include "sullae/error.h"

namespace sullae::pipeline {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::size_t kMostCacheBytes = std::size_t{256} << 20;

// Of what is there by name alone: a link to nothing is where it points. Nothing of what has gone
// since it was listed.
std::optional<std::string> of_absent(const fs::path& file) {
  std::error_code error;
  const auto target = fs::read_symlink(file, error);
  return error ? std::nullopt : std::optional("-> " + target.string());
}

}  // namespace

Contents::Contents(fs::path cache, std::function<bool()> is_to_end)
    : cache_(std::move(cache)), is_to_end_(std::move(is_to_end)) {
  std::error_code error;
  const auto size = fs::file_size(cache_, error);
  if (error || size > kMostCacheBytes) return;
  const auto saved = json::parse(read_file(cache_, kMostCacheBytes), nullptr, false);
  if (!saved.is_object()) return;
  for (const auto& [file, one] : saved.items()) {
    if (one.is_array() && one.size() == 3 && one[0].is_number_unsigned() &&
        one[1].is_number_integer() && one[2].is_string())
      known_[file] = {.bytes = one[0], .time = one[1], .hash = one[2]};
  }
}

void Contents::save() const {
  json saved = json::object();
  for (const auto& [file, one] : known_) {
    std::error_code error;  // of a place that cannot be seen any more
    if (fs::exists(file, error)) saved[file] = {one.bytes, one.time, one.hash};
  }
  write_file(cache_, dump_json(saved));
}

void Contents::ask(std::uint64_t bytes) {
  constexpr std::uint64_t kBetween = std::uint64_t{4} << 20;
  if (unasked_ += bytes; unasked_ < kBetween) return;
  unasked_ = 0;
  if (is_to_end_()) throw Interrupted();
}

// Two that have nothing to do with each other: what changes by accident changes one of them.
std::optional<std::string> Contents::hash_of(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream && errno == ENOENT) return std::nullopt;
  if (!stream) throw Error(fmt::format("{}: {}", file.string(), std::strerror(errno)));
  std::vector<char> bytes(std::size_t{1} << 20);
  std::uint64_t fnv = kFnvStart;
  uLong crc = ::crc32(0, nullptr, 0);
  while (stream.read(bytes.data(), static_cast<std::streamsize>(bytes.size())) ||
         stream.gcount() > 0) {
    const auto count = static_cast<std::size_t>(stream.gcount());
    fnv = fnv1a({bytes.data(), count}, fnv);
    crc = ::crc32(crc, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(count));
    ask(count);
  }
  if (stream.bad()) throw Error(fmt::format("{}: {}", file.string(), std::strerror(errno)));
  return fmt::format("{:016x}{:08x}", fnv, crc);
}

std::optional<std::string> Contents::of_file(const fs::path& file) {
  constexpr std::uint64_t kLook = 1 << 16;  // so many bytes are read in the time of a look, about
  ask(kLook);
  struct stat status {};
  if (::stat(file.c_str(), &status) != 0) {
    if (errno == ENOENT || errno == ELOOP) return of_absent(file);
    throw Error(fmt::format("{}: {}", file.string(), std::strerror(errno)));
  }
  // Who opens a pipe waits for somebody to write into it.
  if (!S_ISREG(status.st_mode))
    throw Error(fmt::format("{}: is neither a file nor a folder", file.string()));
  const auto bytes = static_cast<std::uint64_t>(status.st_size);
  // Of the last change, also of one that has put the old time of writing back.
  const auto nanoseconds = [](const timespec& at) {
    return std::int64_t{at.tv_sec} * 1'000'000'000 + at.tv_nsec;
  };
  const std::int64_t time = std::max(nanoseconds(status.st_mtim), nanoseconds(status.st_ctim));
  const std::int64_t now = std::chrono::duration_cast<std::chrono::nanoseconds>(
                               std::chrono::system_clock::now().time_since_epoch())
                               .count();
  const auto known = known_.find(file.string());
  if (known != known_.end() && known->second.bytes == bytes && known->second.time == time)
    return known->second.hash;
  auto hash = hash_of(file);
  // What was written a moment ago may be written again within the clock's tick, after it was read:
  // it is not known by its time.
  constexpr std::int64_t kSettled = 2'000'000'000;
  if (hash && now - time >= kSettled)
    known_[file.string()] = {.bytes = bytes, .time = time, .hash = *hash};
  else
    known_.erase(file.string());
  return hash;
}

std::optional<std::string> Contents::of(const fs::path& path) {
  if (kafka::is_address(path.native())) return path.native();
  const auto status = storage::status(path);
  if (!status) return std::nullopt;
  const bool is_remote = storage::is_remote(path);
  const auto one = [&](const fs::path& file,
                       const storage::Status& its) -> std::optional<std::string> {
    if (is_remote) return fmt::format("{}-{}", its.bytes, its.version);
    return of_file(file);
  };
  if (!status->is_folder) return one(path, *status);
  // In whatever order they are listed.
  std::map<std::string, std::string> files;
  storage::for_each_file(path, [&](const fs::path& file, const storage::Status& its) {
    if (auto content = one(file, its))
      files[file.lexically_relative(path).string()] = *std::move(content);
  });
  std::uint64_t hash = kFnvStart;
  for (const auto& [name, content] : files) {
    for (const std::string_view part : {std::string_view(name), std::string_view("\0", 1),
                                        std::string_view(content), std::string_view("\n")})
      hash = fnv1a(part, hash);
  }
  return fmt::format("{:016x}-{}", hash, files.size());
}

}  // namespace sullae::pipeline
