#include "sullae/run_log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <exception>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "base/deadline.h"
#include "base/dump_json.h"
#include "base/environment.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/file_lock.h"
#include "base/host.h"
#include "base/log.h"
#include "base/system_error.h"
#include "runs/history.h"
#include "runs/record.h"
#include "sullae/error.h"

namespace sullae {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Some lines.
constexpr std::int64_t kTailBytes = 65536;
// How old run.json may be while lines are written.
constexpr std::chrono::seconds kRecordPeriod{10};
constexpr const char* kTimeout = "SULLAE_RUN_LOCK_TIMEOUT";

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// To the millisecond.
double in_milliseconds(double time) { return std::round(time * 1000) / 1000; }

std::string job_of_environment() {
  std::string folder;
  read_text(process_environment(), "SULLAE_JOB_FOLDER", folder);
  return fs::path(folder).filename().string();
}

// Where the last whole line ends: a process that was killed, or had no room left, may have written
// a part of one behind it.
off_t end_of_lines(int fd, off_t size) {
  std::array<char, 65536> piece;
  for (off_t end = size; end > 0;) {
    const off_t begin = std::max<off_t>(0, end - static_cast<off_t>(piece.size()));
    const auto read = ::pread(fd, piece.data(), static_cast<std::size_t>(end - begin), begin);
    if (read != end - begin) return size;
    for (off_t i = read; i > 0; --i) {
      if (piece[static_cast<std::size_t>(i) - 1] == '\n') return begin + i;
    }
    end = begin;
  }
  return 0;
}

}  // namespace

class RunLog::Impl {
 public:
  Impl(fs::path folder, const RunDescription& description, Earlier earlier)
      : folder_(std::move(folder)), metrics_(folder_ / runs::kMetricsFile) {
    std::error_code error;
    fs::create_directories(folder_, error);
    if (error) throw Error(fmt::format("{}: {}", folder_.string(), error.message()));
    if (earlier == Earlier::refused) runs::expect_new_run(folder_);
    expect_own_lines();
    open(earlier);
    if (earlier == Earlier::refused) runs::expect_new_run(folder_);  // of another that was as quick
    begin(description);
  }
  ~Impl() {
    // A fork has the file, and with it the lock, but is not the run.
    if (::getpid() != record_.pid) return;
    if (!record_.ended || !is_recorded_) {
      const bool fails = std::uncaught_exceptions() > exceptions_;
      try {
        if (!record_.ended) take_end(fails ? runs::End::failed : runs::End::stopped, "");
        write_record();
      } catch (const std::exception& failure) {
        log::warning("{}", failure.what());
      }
    }
    // Forks that live on, workers that read data, say, have the file still.
    unlock(fd_.get());
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void scalars(std::int64_t step, const std::map<std::string, double>& values) {
    if (step < least_step_)
      throw InputError(
          fmt::format("step {}: expected one from {} on: steps count from the beginning of the "
                      "training, for all curves",
                      step, least_step_));
    json line{{"time", in_milliseconds(now())}, {"step", step}};
    for (const auto& [tag, value] : values) {
      if (tag.empty() || tag == "time" || tag == "step" || tag == "note" || tag == "goes_on")
        throw InputError(
            fmt::format("'{}' is no tag of a curve: expected one such as train/loss", tag));
      line[tag] = runs::json_number(value);
    }
    if (is_continued_) goes_on_after(step - 1);
    append(line);
    for (const auto& [tag, value] : values) record_.latest[tag] = value;
    record_.step = step;
    least_step_ = step;
    if (std::chrono::steady_clock::now() - tried_ > kRecordPeriod) refresh_record();
  }

  void note(const std::string& text) {
    append({{"time", in_milliseconds(now())}, {"step", record_.step}, {"note", text}});
  }

  void goes_on_after(std::int64_t step) {
    step = std::max<std::int64_t>(step, 0);
    if (has_lines_) append({{"time", in_milliseconds(now())}, {"step", step}, {"goes_on", true}});
    is_continued_ = false;
    record_.step = step;
    least_step_ = step;
  }

  void expect_steps(std::int64_t steps) {
    if (record_.steps == steps) return;
    record_.steps = steps;
    refresh_record();
  }

  void describe(const RunDescription& description) {
    take(description);
    write_record();
  }

  void end(runs::End end, const std::string& reason) {
    take_end(end, reason);
    write_record();
  }

 private:
  // Whoever goes on needs something to go on with, where there are lines.
  void expect_own_lines() const {
    struct stat status = {};
    if (::stat((folder_ / runs::kRecordFile).c_str(), &status) != 0) runs::expect_new_run(folder_);
  }

  void open(Earlier earlier) {
    fd_.reset(::open(metrics_.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0644));
    if (!fd_) throw system_error("{}", metrics_.string());
    std::chrono::milliseconds limit{10000};
    read_seconds(process_environment(), kTimeout, ZeroMeans::error, limit);
    if (earlier != Earlier::continued) limit = std::chrono::milliseconds{0};
    const Deadline deadline(limit, kTimeout);
    while (!lock()) {
      if (deadline.passed())
        throw InputError(fmt::format("{}: another process writes this run", folder_.string()));
      std::this_thread::sleep_for(std::chrono::milliseconds{50});
    }
  }

  bool lock() const {
    try {
      return try_lock(fd_.get(), metrics_);
    } catch (const Error& error) {
      log::warning("{}: it cannot be locked: whether this run lives is not seen", error.what());
      return true;
    }
  }

  void mend() {
    struct stat status = {};
    if (::fstat(fd_.get(), &status) != 0) throw system_error("{}", metrics_.string());
    // Whoever writes to a pipe waits for somebody who reads.
    if (!S_ISREG(status.st_mode))
      throw InputError(fmt::format("{}: is no file", metrics_.string()));
    if (const off_t end = end_of_lines(fd_.get(), status.st_size);
        end != status.st_size && ::ftruncate(fd_.get(), end) != 0)
      throw system_error("{}", metrics_.string());
    has_lines_ = is_continued_ = status.st_size > 0;
    if (const auto end = runs::History::end_of(metrics_, kTailBytes); !end.steps().empty())
      record_.step = end.steps().back();
  }

  void begin(const RunDescription& description) {
    record_.started = in_milliseconds(now());
    const auto file = folder_ / runs::kRecordFile;
    struct stat status = {};
    if (::stat(file.c_str(), &status) == 0) take_up(file);
    mend();
    record_.host = host_name();
    record_.pid = ::getpid();
    record_.job = job_of_environment();
    record_.launch = runs::launch_of_environment();
    take(description);
    write_record();
  }

  // Of one that was torn nothing is known; what is whole and none of ours is not written over.
  void take_up(const fs::path& file) {
    const std::string text = read_file(file, runs::kMostRecordBytes);
    if (!json::accept(text)) {
      log::warning("{}: is damaged, and is written anew", file.string());
      return;
    }
    auto earlier = runs::record_from(text, file);
    record_.started = earlier.started;
    record_.step = earlier.step;
    record_.steps = earlier.steps;
    record_.latest = std::move(earlier.latest);
  }

  void take(const RunDescription& description) {
    record_.name = description.name.empty()
                       ? fs::absolute(folder_).lexically_normal().filename().string()
                       : description.name;
    record_.settings = description.settings;
    record_.ranks = description.ranks;
  }

  void append(const json& line) {
    const std::string text = dump_json(line) + '\n';
    const off_t begin = ::lseek(fd_.get(), 0, SEEK_END);
    std::size_t done = 0;
    while (done < text.size()) {
      const auto written = ::write(fd_.get(), text.data() + done, text.size() - done);
      if (written > 0) {
        done += static_cast<std::size_t>(written);
      } else if (errno != EINTR) {
        const Error failure = system_error("{}", metrics_.string());
        if (::ftruncate(fd_.get(), begin) != 0)
          log::warning("{}: a part of a line stays", metrics_.string());
        throw failure;
      }
    }
    has_lines_ = true;
  }

  void take_end(runs::End end, const std::string& reason) {
    record_.ended = {.end = end, .time = in_milliseconds(now()), .reason = reason};
  }

  // What can wait for the next time.
  void refresh_record() {
    try {
      write_record();
    } catch (const Error& error) {
      if (!std::exchange(is_told_, true)) log::warning("{}", error.what());
    }
  }

  void write_record() {
    tried_ = std::chrono::steady_clock::now();
    is_recorded_ = false;
    record_.written = in_milliseconds(now());
    write_file(folder_ / runs::kRecordFile, runs::to_text(record_));
    is_recorded_ = true;
  }

  fs::path folder_;
  fs::path metrics_;
  UniqueFd fd_;
  runs::RunRecord record_;
  std::chrono::steady_clock::time_point tried_;  // to write it
  bool is_recorded_ = false;                     // as it is
  bool is_told_ = false;                         // that it cannot be
  bool has_lines_ = false;
  bool is_continued_ = false;  // and has not said from where
  std::int64_t least_step_ = 0;
  const int exceptions_ = std::uncaught_exceptions();
};

RunLog::RunLog(fs::path folder, const RunDescription& description, Earlier earlier)
    : impl_(std::make_unique<Impl>(std::move(folder), description, earlier)) {}
RunLog::~RunLog() = default;
RunLog::RunLog(RunLog&&) noexcept = default;
RunLog& RunLog::operator=(RunLog&&) noexcept = default;

void RunLog::scalars(std::int64_t step, const std::map<std::string, double>& values) {
  impl_->scalars(step, values);
}
void RunLog::goes_on_after(std::int64_t step) { impl_->goes_on_after(step); }
void RunLog::expect_steps(std::int64_t steps) { impl_->expect_steps(steps); }
void RunLog::note(const std::string& text) { impl_->note(text); }
void RunLog::describe(const RunDescription& description) { impl_->describe(description); }
void RunLog::completed() { impl_->end(runs::End::completed, ""); }
void RunLog::failed(const std::string& why) { impl_->end(runs::End::failed, why); }
void RunLog::stopped(const std::string& why) { impl_->end(runs::End::stopped, why); }

}  // namespace sullae
