#include "pipeline/contents.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

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

// Two that have nothing to do with each other: what changes by accident changes one of them.
std::string hash_of(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream) throw Error(fmt::format("{}: {}", file.string(), std::strerror(errno)));
  std::vector<char> bytes(std::size_t{1} << 20);
  std::uint64_t fnv = kFnvStart;
  uLong crc = ::crc32(0, nullptr, 0);
  while (stream.read(bytes.data(), static_cast<std::streamsize>(bytes.size())) ||
         stream.gcount() > 0) {
    const auto count = static_cast<std::size_t>(stream.gcount());
    fnv = fnv1a({bytes.data(), count}, fnv);
    crc = ::crc32(crc, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(count));
  }
  if (stream.bad()) throw Error(fmt::format("{}: {}", file.string(), std::strerror(errno)));
  return fmt::format("{:016x}{:08x}", fnv, crc);
}

}  // namespace

Contents::Contents(fs::path cache) : cache_(std::move(cache)) {
  if (!fs::exists(cache_) || fs::file_size(cache_) > kMostCacheBytes) return;
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
    if (fs::exists(file)) saved[file] = {one.bytes, one.time, one.hash};
  }
  write_file(cache_, saved.dump(-1, ' ', false, json::error_handler_t::replace));
}

std::string Contents::of_file(const fs::path& file) {
  struct stat status {};
  if (::stat(file.c_str(), &status) != 0)
    throw Error(fmt::format("{}: {}", file.string(), std::strerror(errno)));
  const auto bytes = static_cast<std::uint64_t>(status.st_size);
  // Of the last change, also of one that has put the old time of writing back.
  const auto nanoseconds = [](const timespec& at) {
    return std::int64_t{at.tv_sec} * 1'000'000'000 + at.tv_nsec;
  };
  const std::int64_t time = std::max(nanoseconds(status.st_mtim), nanoseconds(status.st_ctim));
  Known& known = known_[file.string()];
  // What was written a moment ago may be written again within the clock's tick.
  constexpr std::int64_t kSettled = 2'000'000'000;
  const std::int64_t now = std::chrono::duration_cast<std::chrono::nanoseconds>(
                               std::chrono::system_clock::now().time_since_epoch())
                               .count();
  if (known.bytes != bytes || known.time != time || known.hash.empty() || now - time < kSettled)
    known = {.bytes = bytes, .time = time, .hash = hash_of(file)};
  return known.hash;
}

std::optional<std::string> Contents::of(const fs::path& path) {
  if (kafka::is_address(path.native())) return path.native();
  const auto status = storage::status(path);
  if (!status) return std::nullopt;
  const bool is_remote = storage::is_remote(path);
  const auto one = [&](const fs::path& file, const storage::Status& its) {
    return is_remote ? fmt::format("{}-{}", its.bytes, its.version) : of_file(file);
  };
  if (!status->is_folder) return one(path, *status);
  // In whatever order they are listed.
  std::map<std::string, std::string> files;
  storage::for_each_file(path, [&](const fs::path& file, const storage::Status& its) {
    files[file.lexically_relative(path).string()] = one(file, its);
  });
  std::uint64_t hash = kFnvStart;
  for (const auto& [name, content] : files) hash = fnv1a(name + '\0' + content + '\n', hash);
  return fmt::format("{:016x}-{}", hash, files.size());
}

}  // namespace sullae::pipeline
