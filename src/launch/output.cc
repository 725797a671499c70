#include "launch/output.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstring>
#include <vector>

#include "base/deadline.h"
#include "base/log.h"
#include "sullae/error.h"

namespace sullae {
namespace {

// A line that grows beyond this is written in pieces.
constexpr std::size_t kLongestLine = 65536;

// Of a job that ends, whose ranks nobody lets wait any more.
constexpr std::size_t kMostKept = std::size_t{64} << 20;
constexpr std::chrono::seconds kLastMoment{1};

// Of a terminal there is less room: more would wait for its reader.
std::size_t piece_of(int descriptor) {
  constexpr std::size_t kTerminalBytes = 256;
  return ::isatty(descriptor) == 1 ? kTerminalBytes : PIPE_BUF;
}

bool are_one_file(int a, int b) {
  struct stat one {};
  struct stat other {};
  return ::fstat(a, &one) == 0 && ::fstat(b, &other) == 0 && one.st_dev == other.st_dev &&
         one.st_ino == other.st_ino;
}

constexpr int kColours[] = {36, 33, 32, 35, 34, 31, 96, 93, 92, 95, 94, 91};

}  // namespace

RankOutput::RankOutput(OutputOptions options) : options_(std::move(options)) {
  queues_.push_back({STDOUT_FILENO, piece_of(STDOUT_FILENO)});
  if (!are_one_file(STDOUT_FILENO, STDERR_FILENO))
    queues_.push_back({STDERR_FILENO, piece_of(STDERR_FILENO)});
  if (options_.directory.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(options_.directory, error);
  if (error)
    throw Error(fmt::format("--output-dir {}: {}", options_.directory.string(), error.message()));
}

RankOutput::~RankOutput() {
  finish_all();
  const Deadline limit(kLastMoment, "the limit for the last output");
  while (has_more() && !limit.passed()) {
    std::vector<pollfd> polled;
    add_to_poll(polled);
    ::poll(polled.data(), polled.size(), static_cast<int>(limit.remaining().count()));
    send_on();
  }
}

void RankOutput::finish_all() {
  std::vector<int> ranks;
  for (const auto& [key, line] : partial_) ranks.push_back(key.first);
  for (const int rank : ranks) finish(rank);
}

std::size_t RankOutput::waiting_bytes() const {
  std::size_t bytes = 0;
  for (const Queue& queue : queues_) bytes += queue.waiting.size();
  return bytes;
}

void RankOutput::add_to_poll(std::vector<pollfd>& polled) const {
  for (const Queue& queue : queues_) {
    if (!queue.waiting.empty()) polled.push_back({queue.descriptor, POLLOUT, 0});
  }
}

void RankOutput::send_on() {
  for (Queue& queue : queues_) send_on(queue);
}

void RankOutput::send_on(Queue& queue) {
  std::string_view rest = queue.waiting;
  while (!rest.empty()) {
    pollfd polled{queue.descriptor, POLLOUT, 0};
    if (::poll(&polled, 1, 0) <= 0) break;
    const auto n = ::write(queue.descriptor, rest.data(), std::min(rest.size(), queue.piece));
    if (n >= 0) {
      rest.remove_prefix(static_cast<std::size_t>(n));
    } else if (errno == EAGAIN) {
      break;
    } else if (errno != EINTR) {
      if (errno == EPIPE)
        open_ = false;
      else
        say_once(fmt::format("standard {} cannot be written: {}",
                             queue.descriptor == STDOUT_FILENO ? "output" : "error",
                             std::strerror(errno)));
      rest = {};
    }
  }
  queue.waiting.erase(0, queue.waiting.size() - rest.size());
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
  put(descriptor, text);
}

void RankOutput::say(std::string_view line) { put(STDERR_FILENO, fmt::format("{}\n", line)); }

void RankOutput::put(int descriptor, std::string_view text) {
  if (!open_ && descriptor == STDOUT_FILENO) return;
  Queue& queue = descriptor == STDOUT_FILENO ? queues_.front() : queues_.back();
  if (queue.waiting.size() > kMostKept)
    return say_once("nobody reads what ranks write, and more than 64 MB of it is left out");
  queue.waiting += text;
  send_on(queue);
}

}  // namespace sullae
