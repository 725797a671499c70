#include "pipeline/turn.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "base/deadline.h"
#include "base/environment.h"
#include "base/file.h"
#include "base/file_lock.h"
#include "base/host.h"
#include "pipeline/forecast.h"
#include "sullae/error.h"

namespace sullae::pipeline {
namespace {

namespace fs = std::filesystem;

// A file for each run that waits, in whose lock it is alive.
class Queue {
 public:
  Queue(const State& state, Time scheduled)
      : folder_(state.folder() / "waiting"),
        own_(folder_ / fmt::format("{:020}-{}-{}", scheduled, host_name(), ::getpid())) {}
  ~Queue() {
    std::error_code ignored;  // what stays is removed by whoever waits next
    fs::remove(own_, ignored);
  }
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  bool is_first() {
    // Another may have taken it for one that was left, before it was locked.
    if (!lock_ || !fs::exists(own_)) join();
    std::error_code error;
    for (const fs::path& file : entries_of(folder_, error).value_or(std::vector<fs::path>{})) {
      if (file == own_) return true;
      if (is_locked(file).value_or(false)) return false;
      fs::remove(file, error);
    }
    return false;
  }

 private:
  void join() {
    fs::create_directories(folder_);
    lock_ = lock_file(own_, 0644, Deadline(std::chrono::seconds{1}, "the limit for its own lock"));
  }

  fs::path folder_;
  fs::path own_;
  UniqueFd lock_;
};

// While it waits nobody else looks at its deadline.
class DeadlineWatch {
 public:
  DeadlineWatch(const Pipeline& pipeline, const State& state, Time scheduled)
      : pipeline_(pipeline),
        run_(state.run(scheduled).value_or(RunRecord{.scheduled = scheduled})) {
    run_.foreseen_late.reset();
    run_.deadline.reset();
    if (pipeline.deadline.empty() || run_.state == RunState::done) return;
    run_.deadline = deadline_after(scheduled, pipeline.deadline, "deadline");
    usual_ = usual_of(state.runs(kRunsLookedAt));
  }

  void look(Turn& turn) {
    if (turn.foreseen_late) return;
    const Time now = std::time(nullptr);
    const auto message = lateness(pipeline_, run_, usual_, now);
    if (!message) return;
    turn.foreseen_late = run_.foreseen_late = now;
    fmt::print("{}\n", *message);
    std::fflush(stdout);
    turn.teller->tell("late", *message, run_);
  }

 private:
  const Pipeline& pipeline_;
  RunRecord run_;
  Usual usual_;
};

}  // namespace

std::optional<Turn> wait_for_turn(const Pipeline& pipeline, const State& state, Time scheduled,
                                  const std::function<bool()>& is_to_end) {
  std::chrono::milliseconds limit{std::chrono::hours{24}};
  read_seconds(process_environment(), "SULLAE_PIPELINE_QUEUE_TIMEOUT", ZeroMeans::error, limit);
  const Deadline deadline(limit, "SULLAE_PIPELINE_QUEUE_TIMEOUT");
  std::optional<Queue> queue;
  if (pipeline.overlap == Overlap::queue) queue.emplace(state, scheduled);
  std::optional<DeadlineWatch> watch;
  Turn turn{.lock = {}, .teller = std::make_unique<Teller>(pipeline), .foreseen_late = {}};
  bool is_told = false;
  for (;;) {
    if (!queue || queue->is_first()) {
      if (auto lock = state.try_lock(scheduled)) {
        turn.lock = *std::move(lock);
        return turn;
      }
    }
    const auto holder = state.holder();
    if (holder) {
      const auto who = fmt::format("the run of {} (process {} on {})", to_text(holder->scheduled),
                                   holder->pid, holder->host);
      if (pipeline.overlap == Overlap::skip) {
        fmt::print("{}: {} is on its way: this one is left out\n", pipeline.name, who);
        return std::nullopt;
      }
      if (!std::exchange(is_told, true)) {
        fmt::print("{}: {} is on its way{}\n", pipeline.name, who,
                   queue ? ": this one waits for it" : ": it is ended");
        std::fflush(stdout);
      }
      if (pipeline.overlap == Overlap::replace) state.ask_to_end();
    }
    if (deadline.passed())
      throw TimeoutError(fmt::format("{}: {} was not over {}", pipeline.name,
                                     holder ? "the run of " + to_text(holder->scheduled)
                                            : std::string("one that waits for longer"),
                                     deadline.describe()));
    if (is_to_end()) return std::nullopt;
    if (!watch) watch.emplace(pipeline, state, scheduled);
    watch->look(turn);
    if (holder || queue) std::this_thread::sleep_for(std::chrono::milliseconds{200});
  }
}

}  // namespace sullae::pipeline
