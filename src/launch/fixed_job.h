// A job of so many ranks, from its start to its end.
#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <vector>

#include "launch/job.h"

namespace sullae {

/// The first rank that fails ends the others. Where there are parameter servers, only rank 0 does:
/// the others' workers go on without one that fails, and a server that is killed is started again.
class FixedJob final : public Job {
 public:
  explicit FixedJob(const JobOptions& options) : Job(options), running_(options.ranks) {}

 private:
  void start() override;
  void start_server(RunningAgent& agent, int server);
  void on_server_ended(RunningAgent& agent, int server, int status);
  void on_rank_ended(const RunningAgent& agent, int rank, int status);
  bool note_end(int rank);
  bool has_ended(int rank) const { return std::ranges::find(ended_, rank) != ended_.end(); }
  void end_servers();
  bool needs(const RunningAgent& agent) const;
  bool finished() const override { return running_ == 0 && living_servers_.empty(); }
  void on_process_ended(RunningAgent& agent, int rank, int status) override;
  void on_host_lost(RunningAgent& agent, const std::string& why) override;

  std::map<const RunningAgent*, std::vector<int>> ranks_;
  std::map<const RunningAgent*, std::set<int>> servers_;  // of parameters
  std::map<int, std::deque<Clock::time_point>> deaths_;   // of servers
  std::set<int> living_servers_;
  std::vector<int> ended_;  // ranks, in the order in which they did
  int running_;
};

}  // namespace sullae
