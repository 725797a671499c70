#include "cluster/coordinator.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <stop_token>
#include <thread>

#include "base/deadline.h"
#include "base/environment.h"
#include "base/file.h"
#include "base/host.h"
#include "base/system_error.h"
#include "cluster/engine.h"
#include "cluster/job_folder.h"
#include "cluster/time_limit.h"
#include "cluster/worker_pool.h"
#include "launch/job.h"
#include "launch/job_signals.h"
#include "launch/launcher.h"
#include "sullae/error.h"

namespace sullae::cluster {
namespace {

// The engine has its own limits, and users theirs; a coordinator waits for nodes as long as it may.
constexpr std::chrono::hours kForever{24 * 365};
constexpr std::chrono::seconds kConnectLimit{300};
constexpr std::chrono::seconds kRequeueLimit{300};

// Within which a failure is one of the nodes that have gone.
constexpr std::chrono::seconds kNodesGoTogether{60};

/// The last host that was lost, or taken back.
struct Gone {
  std::string host;
  Clock::time_point when;
};

class Attempt {
 public:
  Attempt(const std::filesystem::path& path, const Settings& settings, const std::string& engine)
      : folder_(path),
        job_(folder_.job()),
        record_(submission_of(folder_)),
        submission_(std::max(1, record_.number)),
        engine_(make_engine(engine, settings)),
        engine_id_(engine_->this_job()),
        address_(settings.address) {
    engine_->forget_this_job();
  }

  int run() {
    // The engine begins again what it has preempted, also where that was over.
    if (const auto result = folder_.result(submission_)) return result->exit_code;
    if (engine_->was_to_go(engine_id_)) return requeue();
    started_ = std::time(nullptr);
    number_ = folder_.begin_attempt();
    append_output_to(folder_.attempt(number_) / "log");
    say(fmt::format("attempt {} of job {} on {}", number_, folder_.id(), host_name()));
    if (folder_.is_cancelled()) return finish({.end = End::cancelled, .exit_code = 128 + SIGTERM});
    if (attempts_of_submission() > job_.attempts) {
      return finish({.end = End::preempted,
                     .exit_code = 1,
                     .reason = fmt::format("it has begun {} times (--attempts)", job_.attempts)});
    }
    Result result;
    try {
      result = train();
    } catch (const std::exception& error) {
      say(error.what());
      result = {.end = End::failed, .exit_code = 1, .reason = error.what()};
    }
    return finish(result);
  }

 private:
  Result train() {
    // Whoever is told to end is asked by a signal, as from outside.
    const auto end_launcher = [] {
      ::kill(::getpid(), SIGTERM);
    };
    const TimeLimit limit(*engine_, folder_, engine_id_, job_, end_launcher);
    WorkerPool& pool = pool_.emplace(WorkerPoolOptions{.folder = folder_,
                                                       .job = job_,
                                                       .submission = submission_,
                                                       .attempt = number_,
                                                       .address = address_},
                                     *engine_, end_launcher);
    // An engine that takes this node for lost, which lives, has begun the job again elsewhere.
    const std::jthread watch([this, end_launcher](const std::stop_token& stop) {
      block_signals();  // the launcher's
      std::mutex mutex;
      std::condition_variable_any stopped;
      std::unique_lock lock(mutex);
      while (!is_superseded()) {
        stopped.wait_for(lock, stop, std::chrono::seconds{1}, [] { return false; });
        if (stop.stop_requested()) return;
      }
      end_launcher();
    });
    Gone gone;
    JobOptions options = options_of(gone);
    register_host_launcher(
        [&pool](const std::string& host, const JobOptions&) { return pool.launcher_of(host); });
    int exit_code = 1;
    std::string error_text;
    try {
      if (job_.is_elastic()) {
        // The pool lives longer than the launcher.
        options.elastic->source =
            std::shared_ptr<elastic::HostSource>(&pool, [](elastic::HostSource*) {});
      } else {
        // Those of this very allocation are there, or about to be.
        const Clock::duration wait =
            engine_->asks_for_workers() ? Clock::duration(kConnectLimit) : kForever;
        options.hosts = pool.wait_for(
            job_.min_nodes, Deadline(std::chrono::duration_cast<std::chrono::milliseconds>(wait),
                                     "the limit for workers to connect"));
      }
      exit_code = run_job(options);
    } catch (const AskedToEnd& asked) {
      exit_code = 128 + asked.signal();
      say(asked.what());
    } catch (const Error& error) {
      error_text = error.what();
      say(error_text);
    }
    Result result = how_it_ended(exit_code, error_text, gone, limit);
    if (const auto why = pool.failure(); !why.empty())
      result = {.end = End::failed, .exit_code = 1, .reason = why};
    return result;
  }

  JobOptions options_of(Gone& gone) {
    const Size size = folder_.size(job_);
    JobOptions options{.command = command_of_attempt(job_, folder_.path(), number_),
                       .ranks = size.min_nodes * job_.ranks_per_node,
                       .environment = job_.environment,
                       .cpus_per_rank = job_.cpus_per_rank,
                       .bind = engine_->gives_own_cpus(),
                       .store_host = address_};
    options.environment.insert_or_assign("SULLAE_JOB", folder_.id());
    options.environment.insert_or_assign("SULLAE_JOB_FOLDER", folder_.path().string());
    options.environment.insert_or_assign("SULLAE_JOB_ATTEMPT", fmt::to_string(number_));
    if (job_.is_elastic()) {
      options.elastic = {.min_ranks = options.ranks,
                         .max_ranks = size.max_nodes * job_.ranks_per_node,
                         .timeout = kForever};
    }
    options.on_started = [this, file = std::make_shared<std::ofstream>(
                                    folder_.attempt(number_) / "workers.jsonl", std::ios::app)](
                             int rank, const std::string& host) {
      hosts_[host].reset();
      *file << nlohmann::json{{"worker", rank}, {"node", host}}.dump() << std::endl;
    };
    options.on_host_gone = [this, &gone](const std::string& host) {
      gone = {.host = host, .when = Clock::now()};
      hosts_[host] = gone.when;
    };
    if (::chdir(job_.directory.c_str()) != 0)
      throw system_error("the job's directory {}", job_.directory);
    return options;
  }

  Result how_it_ended(int exit_code, const std::string& error, const Gone& gone,
                      const TimeLimit& limit) {
    if (exit_code == 0) return {.end = End::completed};
    if (folder_.is_cancelled()) return {.end = End::cancelled, .exit_code = exit_code};
    if (limit.reached() == TimeLimit::Kind::deadline)
      return {.end = End::past_deadline,
              .exit_code = exit_code,
              .reason = "it had not ended by " + job_.deadline};
    if (limit.reached() == TimeLimit::Kind::time)
      return {.end = End::timed_out,
              .exit_code = exit_code,
              .reason = "it was still running at its time limit (--time)"};
    // An elastic job goes on without some of its nodes, and not without all.
    const bool lost_nodes = !gone.host.empty() && Clock::now() < gone.when + kNodesGoTogether;
    if (exit_code == 128 + SIGTERM || exit_code == 128 + SIGHUP || lost_nodes) {
      if (const auto node = node_that_is_down(); !node.empty())
        return {.end = End::node_lost,
                .exit_code = exit_code,
                .reason = fmt::format("node {} went down", node)};
      return {.end = End::preempted,
              .exit_code = exit_code,
              .reason = gone.host.empty()
                            ? "its coordinator was told to end"
                            : fmt::format("node {} was taken back, or lost", gone.host)};
    }
    return {.end = End::failed,
            .exit_code = exit_code,
            .reason = (error.empty() ? last_word_of_launcher() : error) + " (sullae jobs logs " +
                      folder_.id() + ")"};
  }

  // Empty where all nodes of this attempt are up, or the engine does not say.
  std::string node_that_is_down() const {
    if (!engine_->asks_for_workers()) return {};  // Kubernetes does not say
    try {
      for (const Node& node : engine_->nodes()) {
        const auto host = hosts_.find(node.name);
        if (host == hosts_.end() ||
            host->second.value_or(Clock::now()) < Clock::now() - kNodesGoTogether)
          continue;
        // A private cluster's comes up again at once.
        if (node.state.starts_with("down") || node.reason.starts_with("repair")) return node.name;
      }
    } catch (const Error& error) {
      say(error.what());
    }
    return {};
  }

  // Which says who failed, and how.
  std::string last_word_of_launcher() const {
    constexpr std::string_view kLauncher = "sullae run: ";
    std::string last = "a rank failed";
    std::ifstream log(folder_.attempt(number_) / "log");
    for (std::string line; std::getline(log, line);) {
      if (line.starts_with(kLauncher)) last = line.substr(kLauncher.size());
    }
    return last;
  }

  bool goes_on(const Result& result) const {
    return is_of_engine(result.end) && attempts_of_submission() < job_.attempts;
  }

  // Those that wait; those that run end with the launcher.
  void end_workers() {
    try {
      std::vector<std::string> ids;
      for (const EngineJob& job : engine_->jobs_of(folder_.path())) {
        if (is_live(job) && job.mark.role == Role::workers) ids.push_back(job.id);
      }
      engine_->cancel(ids);
    } catch (const Error& error) {
      say(error.what());
    }
  }

  // The engine's own tools may have submitted the job again, after whatever end it had.
  static SubmissionRecord submission_of(const JobFolder& folder) {
    SubmissionRecord record = folder.submission();
    const auto name = process_environment()(kSubmissionVariable).value_or("");
    if (name.empty() || name == record.engine_name) return record;
    record = {.number = record.number + 1,
              .time = std::time(nullptr),
              .first_attempt = folder.attempts() + 1,
              .engine_name = name};
    folder.set_submission(record);
    return record;
  }

  int attempts_of_submission() const { return number_ - record_.first_attempt + 1; }

  bool is_superseded() const { return folder_.attempts() > number_; }

  // Where storage is full or away by then the job has not failed: its exit code says so.
  template <class Write>
  static void write_down(Write write) {
    try {
      write();
    } catch (const Error& error) {
      say(error.what());
    }
  }

  // What is known is written before anybody is asked anything.
  int finish(Result result) {
    result.submission = submission_;
    result.attempts = number_;
    result.started = started_;
    result.ended = std::time(nullptr);
    write_down([&] { folder_.end_attempt(number_, result); });
    if (is_superseded()) {
      say(fmt::format("attempt {} of job {}: a later one has begun, and has the job", number_,
                      folder_.id()));
      return result.exit_code;
    }
    const bool is_last = !goes_on(result);
    if (is_last) write_down([&] { folder_.set_result(result); });
    const auto how = to_text(result.end) + (result.reason.empty() ? "" : ": " + result.reason);
    say(is_last ? fmt::format("job {}: {}", folder_.id(), how)
                : fmt::format("attempt {} of {}: {}; the job goes on in the next one",
                              attempts_of_submission(), job_.attempts, how));
    end_workers();
    if (is_last) return result.exit_code;
    return requeue();
  }

  // An engine that begins this very job again ends this process. One that does not answer is asked
  // again; one that has cancelled the job refuses, and ends this process, too.
  int requeue() {
    const Deadline deadline(kRequeueLimit, "the limit for putting the job back into the queue");
    for (bool is_queued = false; !deadline.passed();) {
      try {
        if (!is_queued) engine_->requeue(engine_id_);
        is_queued = true;
        if (!engine_->asks_for_workers()) break;
      } catch (const Error& error) {
        say(error.what());
      }
      std::this_thread::sleep_for(std::chrono::seconds{5});
    }
    return kGoesOn;
  }

  JobFolder folder_;
  Job job_;
  SubmissionRecord record_;
  int submission_;
  std::unique_ptr<Engine> engine_;
  std::string engine_id_;
  std::string address_;
  std::map<std::string, std::optional<Clock::time_point>>
      hosts_;                       // that have had ranks, and when they went
  std::optional<WorkerPool> pool_;  // its thread may wait for the engine: it ends last
  int number_ = 0;
  std::int64_t started_ = 0;
};

}  // namespace

int coordinate(const std::filesystem::path& folder, const Settings& settings,
               const std::string& engine) {
  // The launcher reads them while it runs; they must not end this process before it has told.
  sigset_t ends;
  sigemptyset(&ends);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&ends, signal);
  sigprocmask(SIG_BLOCK, &ends, nullptr);
  Attempt attempt(folder, settings, engine);
  return attempt.run();
}

}  // namespace sullae::cluster
