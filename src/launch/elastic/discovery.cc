#include "launch/elastic/discovery.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <sstream>
#include <utility>

#include "launch/job.h"
#include "launch/job_signals.h"
#include "launch/process.h"
#include "sullae/error.h"

namespace sullae::elastic {
namespace {

// Between two looks at a script whose output has ended.
constexpr std::chrono::milliseconds kLook{20};
constexpr std::chrono::milliseconds kLongestWait{100};
// Of a script's output.
constexpr std::size_t kMostBytes = std::size_t{1} << 20;

}  // namespace

Discovery::~Discovery() { kill(); }

void Discovery::start() {
  next_ = std::chrono::steady_clock::now() + kPeriod;  // where it cannot be started
  Pipe pipe = make_pipe();
  pid_ = start_child({.words = {"/bin/sh", "-c", script_}, .output = pipe.write.get()});
  ::fcntl(pipe.read.get(), F_SETFL, O_NONBLOCK);
  output_ = std::move(pipe.read);
  text_.clear();
  limit_.emplace(kLimit, "the limit of --discover");
  next_ = std::chrono::steady_clock::now() + kLimit;
}

void Discovery::kill() {
  if (pid_ >= 0) kill_and_wait(-std::exchange(pid_, -1));
  output_.reset();
}

void Discovery::read_output() {
  std::array<char, 4096> buffer;
  while (output_ && text_.size() <= kMostBytes) {
    const auto n = ::read(output_.get(), buffer.data(), buffer.size());
    if (n == 0) output_.reset();
    if (n < 0 && errno != EINTR) return;
    if (n > 0) text_.append(buffer.data(), static_cast<std::size_t>(n));
  }
}

// Its output may have ended before it has.
std::optional<std::vector<Host>> Discovery::finish() {
  read_output();
  if (text_.size() > kMostBytes) {
    kill();
    next_ = std::chrono::steady_clock::now() + kPeriod;
    throw Error(fmt::format("--discover '{}' has printed more than 1 MiB: expected a host a line",
                            script_));
  }
  const auto status =
      output_ ? std::nullopt : wait_for_end(pid_, {std::chrono::milliseconds{0}, "none"});
  if (!status && !limit_->passed()) return std::nullopt;
  if (!status) kill();
  pid_ = -1;
  next_ = std::chrono::steady_clock::now() + kPeriod;
  if (!status)
    throw TimeoutError(fmt::format("--discover '{}' did not end {}", script_, limit_->describe()));
  if (*status != 0)
    throw Error(fmt::format("--discover '{}' {}", script_, describe_status(*status)));
  std::istringstream lines(text_);
  auto hosts = parse_host_lines(lines, fmt::format("--discover '{}'", script_));
  if (hosts.empty()) throw Error(fmt::format("--discover '{}' names no host", script_));
  return hosts;
}

Supply Discovery::first() {
  start();
  for (;;) {
    if (auto hosts = finish()) {
      hosts_ = std::move(*hosts);
      return {.hosts = hosts_};
    }
    if (pending_end_signal()) {  // which the launcher takes as soon as this is over
      kill();
      return {};
    }
    pollfd polled{output_.get(), POLLIN, 0};
    const auto limit = output_ ? std::min(limit_->remaining(), kLongestWait) : kLook;
    ::poll(&polled, 1, static_cast<int>(limit.count()));
  }
}

std::optional<Supply> Discovery::turn() {
  try {
    if (pid_ < 0) {
      if (std::chrono::steady_clock::now() >= next_) start();
      return std::nullopt;
    }
    auto hosts = finish();
    if (!hosts) {
      if (!output_) next_ = std::chrono::steady_clock::now() + kLook;
      return std::nullopt;
    }
    complained_ = false;
    if (*hosts == hosts_) return std::nullopt;
    hosts_ = std::move(*hosts);
    return Supply{.hosts = hosts_};
  } catch (const Error& error) {
    if (!std::exchange(complained_, true))
      say(fmt::format("{}; the hosts stay as they are", error.what()));
    return std::nullopt;
  }
}

}  // namespace sullae::elastic
