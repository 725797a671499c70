// What jobs have in common: agents on hosts that start processes, whose output is shown, and
// signals and limits that end them all.
#pragma once

#include <poll.h>

#include <chrono>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/deadline.h"
#include "launch/agent.h"
#include "launch/frames.h"
#include "launch/host_launcher.h"
#include "launch/job_signals.h"
#include "launch/launcher.h"
#include "launch/output.h"
#include "transport/store/store_server.h"

namespace sullae {

struct RunningAgent {
  std::string host;
  bool is_here = true;
  AgentChannel channel;
  FrameReader reader;
  std::string unsent = {};  // frames for which its pipe has no room yet
  bool ready = false;
  bool gone = false;
  std::deque<AgentSpec> to_start = {};  // once it is ready
  std::set<int> ranks = {};             // started or to be, and not known to have ended
};

/// "was killed by signal 9 (Killed)", "ended with exit code 3".
std::string describe_status(int status);
/// 128 + the signal of what was killed.
int exit_code_of(int status);
/// A line of the launcher's own.
void say(const std::string& text);

/// Used by one thread. Its end leaves no process.
class Job {
 public:
  explicit Job(const JobOptions& options);
  virtual ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  /// Returns the exit code.
  int run();
  /// By a signal, its limit, or since nobody reads its output.
  bool asked_to_end() const { return asked_to_end_; }

 protected:
  // What kinds of jobs differ in.
  virtual void start() = 0;
  virtual bool finished() const = 0;
  virtual void on_process_ended(RunningAgent& agent, int rank, int status) = 0;
  /// Nothing is heard of its processes any more. `why` ends a sentence: "host a cannot be used: …".
  virtual void on_host_lost(RunningAgent& agent, const std::string& why) = 0;
  /// Somebody takes the host back soon. `why` begins a sentence: "host a is taken back". Ends the
  /// job.
  virtual void on_host_taken_back(RunningAgent& agent, const std::string& why);
  /// It cannot do what it is to do. Throws Error, which ends the job.
  virtual void on_agent_failed(RunningAgent& agent, const std::string& why);
  /// Adds to what is waited for, and looks at it afterwards.
  virtual void add_to_poll(std::vector<pollfd>&) {}
  virtual void after_poll(std::span<const pollfd>) {}
  /// Nothing is heard of agents for a while, since nobody takes what ranks write: limits for that
  /// begin anew.
  virtual void on_pause();
  /// Its user, or the batch system, ends it: before any process hears of it.
  virtual void on_asked_to_end() {}
  virtual std::chrono::milliseconds poll_limit() const { return std::chrono::milliseconds{1000}; }

  const JobOptions& options() const { return options_; }
  void start_store(bool all_here, StoreServer::Listener listener = {});
  StoreServer& store() { return *store_; }
  void stop_store() { store_.reset(); }
  RunningAgent& start_agent(const std::string& host);
  std::deque<RunningAgent>& agents() { return agents_; }
  /// Starts processes through the agent, as soon as it answers. What all processes get is filled
  /// in, and where there is no command the job's.
  void start_processes(RunningAgent& agent, AgentSpec spec);
  void send_signal(RunningAgent& agent, int rank, int signal);
  void signal_all(int signal);
  void kill_all();
  /// As its user, or the batch system, wants it: ranks have the time to keep what they have.
  void ask_all_to_end(int signal, int exit_code);
  /// The first reason to end decides the exit code.
  void end_all(int signal, int exit_code) { end_all(signal, exit_code, options_.grace); }
  void end_all(int signal, int exit_code, std::chrono::milliseconds grace);
  /// What is to end with success has failed while it ended.
  void fail_with(int exit_code) {
    if (exit_code_ == 0) exit_code_ = exit_code;
  }
  /// Nothing is expected of it any more: it ends, with its processes, and on_host_lost() hears why.
  void give_up(RunningAgent& agent, const std::string& why);
  bool ending() const { return ending_; }
  const std::string& pid_of(int rank) { return pids_[rank]; }
  void forget(int rank) { pids_.erase(rank); }

 private:
  void turn();
  void finish_output();
  void send_frame(RunningAgent& agent, FrameType type, int rank, std::string_view payload);
  static void send_on(RunningAgent& agent);
  int time_to_wait() const;
  void check_deadlines();
  void on_signals();
  int signal_for_ranks(int signal) const;
  void listen(RunningAgent& agent);
  void on_agent_gone(RunningAgent& agent);
  void lose(RunningAgent& agent, const std::string& why);
  void on_frame(RunningAgent& agent, const Frame& frame);
  void wait_for_agents();

  const JobOptions& options_;
  JobSignals signals_;
  RankOutput output_;
  std::optional<StoreServer> store_;
  std::string store_address_;       // as other hosts see it
  std::string store_address_here_;  // as this one does
  std::string secret_;
  std::string id_;                   // tells its files apart from those of other jobs
  std::deque<RunningAgent> agents_;  // which stay where they are
  std::map<int, std::string> pids_;
  bool ending_ = false;
  bool asked_to_end_ = false;
  bool nothing_started_ = false;
  int exit_code_ = 0;
  int interrupts_ = 0;
  std::chrono::steady_clock::time_point interrupted_;
  std::optional<Deadline> connect_deadline_;
  std::optional<Deadline> job_deadline_;
  std::optional<Deadline> kill_deadline_;
  std::optional<Deadline> killed_deadline_;
};

}  // namespace sullae
