#include "launch/output.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <vector>

#include "base/log.h"
#include "sullae/error.h"

namespace sullae {
namespace {

// A line that grows beyond this is written in pieces.
constexpr std::size_t kLongestLine = 65536;

// How often a descriptor that takes nothing is tried again, whatever poll() says.
constexpr std::chrono::milliseconds kLookPeriod{1000};

constexpr int kColours[] = {36, 33, 32, 35, 34, 31, 96, 93, 92, 95, 94, 91};

}  // namespace

RankOutput::RankOutput(OutputOptions options) : options_(std::move(options)) {
  if (options_.directory.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(options_.directory, error);
  if (error)
    throw Error(fmt::format("--output-dir {}: {}", options_.directory.string(), error.message()));
}

RankOutput::~RankOutput() {
  std::vector<int> ranks;
  for (const auto& [key, line] : partial_) ranks.push_back(key.first);
  for (const int rank : ranks) finish(rank);
}

void RankOutput::write(int rank, int descriptor, std::string_view bytes) {
  if (!options_.directory.empty()) write_file(rank, bytes);
  std::string& line = partial_[{rank, descriptor}];
  while (!bytes.empty()) {
    const auto end = bytes.find('\n');
    line.append(bytes.substr(0, end));
    if (end == std::string_view::npos && line.size() < kLongestLine) return;
    write_line(rank, descriptor, line);
    line.clear();
    if (end == std::string_view::npos) return;
    bytes.remove_prefix(end + 1);
  }
}

// "rank-3", "ps-0".
std::string RankOutput::name_of(int rank) const {
  return rank < options_.ranks ? fmt::format("rank-{}", rank)
                               : fmt::format("ps-{}", rank - options_.ranks);
}

void RankOutput::write_file(int rank, std::string_view bytes) {
  const auto path = options_.directory / (name_of(rank) + ".log");
  auto& file = files_[rank];
  errno = 0;
  if (!file.is_open()) {
    const bool appends = options_.append || begun_.contains(rank);
    file.open(path, appends ? std::ios::app : std::ios::trunc);
    if (file.is_open()) begun_.insert(rank);
  }
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.flush();
  if (file) return;
  say_once(fmt::format("{} cannot be written: {}", path.string(), std::strerror(errno)));
  file.clear();  // there may be room again
}

// The job is worth more than what it says.
void RankOutput::say_once(const std::string& what) {
  if (said_.insert(what).second) log::warning("{}; the job goes on", what);
}

void RankOutput::finish(int rank) {
  files_.erase(rank);
  for (const int descriptor : {STDOUT_FILENO, STDERR_FILENO}) {
    const auto found = partial_.find({rank, descriptor});
    if (found == partial_.end()) continue;
    if (!found->second.empty()) write_line(rank, descriptor, found->second);
    partial_.erase(found);
  }
}

void RankOutput::write_line(int rank, int descriptor, std::string_view line) {
  std::string text;
  if (options_.tag) {
    const std::string tag = rank < options_.ranks ? fmt::to_string(rank) : name_of(rank);
    constexpr int kColourCount = sizeof kColours / sizeof kColours[0];
    text = options_.colour
               ? fmt::format("\x1b[{}m[{}]\x1b[0m {}\n", kColours[rank % kColourCount], tag, line)
               : fmt::format("[{}] {}\n", tag, line);
  } else {
    text = fmt::format("{}\n", line);
  }
  std::string_view rest = text;
  while (!rest.empty() && open_) {
    const auto n = ::write(descriptor, rest.data(), rest.size());
    if (n >= 0) {
      rest.remove_prefix(static_cast<std::size_t>(n));
    } else if (errno == EAGAIN) {
      // Whoever gave this descriptor reads it at leisure, and does not want it to block.
      pollfd polled{descriptor, POLLOUT, 0};
      ::poll(&polled, 1, static_cast<int>(kLookPeriod.count()));
    } else if (errno == EPIPE) {
      open_ = false;
    } else if (errno != EINTR) {
      return say_once(fmt::format("standard {} cannot be written: {}",
                                  descriptor == STDOUT_FILENO ? "output" : "error",
                                  std::strerror(errno)));
    }
  }
}

}  // namespace sullae
