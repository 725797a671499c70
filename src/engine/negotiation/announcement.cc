#include "engine/negotiation/announcement.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "sullae/error.h"

namespace sullae::engine {
namespace {

enum Flags : std::uint8_t { kJoined = 1, kLeaving = 2, kSettings = 4, kFailed = 8 };

// More than any cache holds.
constexpr std::size_t kMostNumbers = std::size_t{1} << 24;

class Writer {
 public:
  template <class T>
  void put(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void put_text(std::string_view text) {
    put(static_cast<std::uint32_t>(text.size()));
    bytes_.append(text);
  }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}
  template <class T>
  T get() {
    static_assert(!std::is_same_v<T, bool>, "not every byte is a bool");
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  bool get_bool() {
    const auto byte = get<std::uint8_t>();
    if (byte > 1) throw Error("a rank's announcement holds a truth that is neither 0 nor 1");
    return byte != 0;
  }
  std::string get_text() {
    const auto length = get<std::uint32_t>();
    return std::string(take(length));
  }
  /// How many entries of at least `least_bytes` follow.
  std::size_t get_count(std::size_t least_bytes) {
    const auto count = get<std::uint32_t>();
    if (count > rest_.size() / least_bytes)
      throw Error("a rank's announcement counts more than it holds");
    return count;
  }

 private:
  std::string_view take(std::size_t bytes) {
    if (bytes > rest_.size()) throw Error("a rank's announcement ends too early");
    const auto part = rest_.substr(0, bytes);
    rest_.remove_prefix(bytes);
    return part;
  }
  std::string_view rest_;
};

struct Run {
  std::uint32_t first;
  std::uint32_t length;
};

std::vector<Run> runs_of(std::vector<std::uint32_t> numbers) {
  std::ranges::sort(numbers);
  std::vector<Run> runs;
  for (const auto number : numbers) {
    if (!runs.empty() && runs.back().first + runs.back().length == number) {
      ++runs.back().length;
    } else {
      runs.push_back({number, 1});
    }
  }
  return runs;
}

}  // namespace

std::string Announcement::encode() const {
  if (empty()) return {};
  Writer writer;
  writer.put(static_cast<std::uint8_t>((joined ? kJoined : 0) | (leaving ? kLeaving : 0) |
                                       (settings ? kSettings : 0) | (failed ? kFailed : 0)));
  const auto runs = runs_of(cached);
  writer.put(static_cast<std::uint32_t>(runs.size()));
  for (const Run& run : runs) writer.put(run);
  writer.put(static_cast<std::uint32_t>(requests.size()));
  for (const Request& request : requests) {
    writer.put_text(request.name);
    writer.put(request.signature);
    writer.put(request.prescale);
    writer.put(request.postscale);
    writer.put(static_cast<std::uint32_t>(request.sizes.size()));
    for (const auto size : request.sizes) writer.put(size);
    writer.put_text(request.compression);
    writer.put_text(request.shape);
    writer.put(request.joined_too);
  }
  writer.put(static_cast<std::uint32_t>(given_up.size()));
  for (const GivenUp& one : given_up) {
    writer.put_text(one.name);
    writer.put_text(one.reason);
  }
  writer.put(static_cast<std::uint32_t>(waiting.size()));
  for (const Waiting& one : waiting) {
    writer.put_text(one.set);
    writer.put(static_cast<std::uint32_t>(one.members.size()));
    for (const int member : one.members) writer.put(member);
    writer.put_text(one.name);
    writer.put(one.ended);
  }
  if (failed) writer.put_text(*failed);
  if (settings) {
    writer.put(settings->fusion_threshold);
    writer.put(settings->cycle_time);
    writer.put_text(settings->allreduce_algorithm);
  }
  return writer.take();
}

Announcement Announcement::decode(std::string_view bytes) {
  Announcement announcement;
  if (bytes.empty()) return announcement;
  Reader reader(bytes);
  const auto flags = reader.get<std::uint8_t>();
  announcement.joined = (flags & kJoined) != 0;
  announcement.leaving = (flags & kLeaving) != 0;
  for (auto runs = reader.get_count(sizeof(Run)); runs > 0; --runs) {
    const Run run = reader.get<Run>();
    if (run.length > kMostNumbers - announcement.cached.size())
      throw Error("a rank's announcement names more operations than there can be");
    for (std::uint32_t i = 0; i < run.length; ++i) announcement.cached.push_back(run.first + i);
  }
  for (auto requests = reader.get_count(sizeof(Signature)); requests > 0; --requests) {
    Request request;
    request.name = reader.get_text();
    request.signature = reader.get<Signature>();
    request.prescale = reader.get<double>();
    request.postscale = reader.get<double>();
    request.sizes.resize(reader.get_count(sizeof(std::uint64_t)));
    for (auto& size : request.sizes) size = reader.get<std::uint64_t>();
    request.compression = reader.get_text();
    request.shape = reader.get_text();
    request.joined_too = reader.get_bool();
    announcement.requests.push_back(std::move(request));
  }
  for (auto names = reader.get_count(2 * sizeof(std::uint32_t)); names > 0; --names) {
    GivenUp one;
    one.name = reader.get_text();
    one.reason = reader.get_text();
    announcement.given_up.push_back(std::move(one));
  }
  for (auto waits = reader.get_count(2 * sizeof(std::uint32_t)); waits > 0; --waits) {
    Waiting one;
    one.set = reader.get_text();
    one.members.resize(reader.get_count(sizeof(int)));
    for (int& member : one.members) member = reader.get<int>();
    one.name = reader.get_text();
    one.ended = reader.get_bool();
    announcement.waiting.push_back(std::move(one));
  }
  if ((flags & kFailed) != 0) announcement.failed = reader.get_text();
  if ((flags & kSettings) != 0) {
    announcement.settings = Settings{.fusion_threshold = reader.get<std::size_t>(),
                                     .cycle_time = reader.get<std::chrono::microseconds>(),
                                     .allreduce_algorithm = reader.get_text()};
  }
  return announcement;
}

}  // namespace sullae::engine
