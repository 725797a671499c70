// A job whose ranks come and go while it runs: what Membership decides, done with agents and the
// store.
#pragma once

#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "launch/elastic/host_source.h"
#include "launch/elastic/membership.h"
#include "launch/elastic/protocol.h"
#include "launch/job.h"

namespace sullae::elastic {

class ElasticJob final : public Job {
 public:
  explicit ElasticJob(const JobOptions& options);
  ~ElasticJob() override;

 private:
  struct Worker {
    RunningAgent* agent = nullptr;
    int messages = 0;                  // sent to it
    bool left = false;                 // it has said so
    std::optional<Time> kill_at = {};  // since it has been asked to end
    bool exits = false;                // it has said so

    bool is_to_end() const { return left || kill_at; }
  };

  void start() override;
  bool finished() const override;
  void on_process_ended(RunningAgent& agent, int worker, int status) override;
  void on_host_lost(RunningAgent& agent, const std::string& why) override;
  void on_host_taken_back(RunningAgent& agent, const std::string& why) override;
  void on_agent_failed(RunningAgent& agent, const std::string& why) override;
  void add_to_poll(std::vector<pollfd>& polled) override;
  void after_poll(std::span<const pollfd> polled) override;
  void on_asked_to_end() override;
  void on_pause() override;
  Milliseconds poll_limit() const override;

  void on_key(const std::string& key, const std::string& value);
  void on_message(int worker, const WorkerMessage& message);
  void give_silent_ones_up();
  void kill_late_ones();
  void act();
  void act_on(const Start& start);
  void act_on(const Stop& stop);
  void act_on(const Interrupt& interrupt);
  void act_on(const Abandon& abandon);
  void act_on(const Form& form);
  void act_on(const Note& note);
  void act_on(const Fail& fail);
  void send(int worker, const LauncherMessage& message);
  void send_to_members(const Generation& generation, LauncherMessage message);
  RunningAgent& agent_on(const std::string& host);
  void set_supply(Supply supply);
  void set_hosts();
  void release_agents();
  std::string name_of(const RunningAgent& agent) const;

  Membership membership_;
  std::map<int, Worker> workers_;  // whose processes run
  HostSource* const source_;       // null: the job's hosts are all
  std::vector<Host> supplied_;
  std::set<std::string> taken_back_;  // hosts that are still supplied, and give no more ranks
  std::map<int, Time> silent_since_;
  int failure_code_ = 1;  // of the last process that failed

  UniqueFd heard_;  // readable when the two below are to be looked at
  std::mutex mutex_;
  std::deque<std::pair<int, std::string>> received_;  // nothing by whose connection is broken
};

}  // namespace sullae::elastic
