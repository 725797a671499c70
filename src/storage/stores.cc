#include "storage/stores.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <string_view>

#include "storage/s3/s3_store.h"
#include "storage/webhdfs/webhdfs_store.h"
#include "sullae/error.h"

namespace sullae::storage {
namespace {

struct Kind {
  std::string_view scheme;
  std::unique_ptr<Store> (*make)(const Location& location);
  const char* example;
};
constexpr std::array<Kind, 3> kKinds = {
    {{"s3", &make_s3_store, "s3://BUCKET/PATH"},
     {"webhdfs", &make_webhdfs_store, "webhdfs://HOST:PORT/PATH"},
     {"swebhdfs", &make_webhdfs_store, "swebhdfs://HOST:PORT/PATH"}}};

const Kind* kind_of(std::string_view scheme) {
  for (const Kind& kind : kKinds) {
    if (kind.scheme == scheme) return &kind;
  }
  return nullptr;
}

// Which are no files.
constexpr std::string_view kTopics = "kafka";

bool is_scheme(std::string_view text) {
  return std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.';
  });
}

[[noreturn]] void refuse(const std::string& text, std::string_view scheme) {
  std::string known = "a path";
  for (const Kind& kind : kKinds) known += fmt::format(", {}", kind.example);
  throw InputError(fmt::format(
      "{}: there is no store '{}://' here: expected {}{}", text, scheme, known,
      scheme == "hdfs" ? "; HDFS is read by WebHDFS: webhdfs://NAMENODE:9870/PATH" : ""));
}

}  // namespace

std::optional<Location> find_location(const std::filesystem::path& path) {
  const std::string& text = path.native();
  const auto mark = text.find("://");
  if (mark == std::string::npos || mark == 0) return std::nullopt;
  const auto scheme = std::string_view(text).substr(0, mark);
  const Kind* const kind = kind_of(scheme);
  if (kind == nullptr) {
    if (is_scheme(scheme) && scheme != kTopics) refuse(text, scheme);
    return std::nullopt;
  }
  const std::string rest = text.substr(mark + 3);
  const auto slash = rest.find('/');
  Location location{.scheme = std::string(kind->scheme),
                    .authority = rest.substr(0, slash),
                    .path = slash == std::string::npos ? "" : rest.substr(slash + 1)};
  while (location.path.ends_with('/')) location.path.pop_back();
  if (location.authority.empty())
    throw InputError(fmt::format("{}: expected {}", text, kind->example));
  return location;
}

Store& store_of(const Location& location) {
  static std::mutex mutex;
  static std::map<std::string, std::unique_ptr<Store>> stores;
  const std::lock_guard lock(mutex);
  auto& store = stores[location.scheme + "://" + location.authority];
  if (!store) store = kind_of(location.scheme)->make(location);
  return *store;
}

}  // namespace sullae::storage
