// `sullae run`: starts the ranks of a job on hosts, shows their output, and ends them all when one
// fails.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "launch/hosts.h"

namespace sullae {

namespace elastic {
class HostSource;
}

struct JobOptions {
  std::vector<std::string> command;
  int ranks = 1;
  /// Empty runs all ranks on this host.
  std::vector<Host> hosts;
  /// Variables for every rank.
  std::map<std::string, std::string> environment;
  /// Ends the job when it has run this long, with all its restarts; zero sets no limit.
  std::chrono::milliseconds timeout{0};
  /// run_job() makes it of that.
  std::optional<Deadline> deadline = {};
  std::filesystem::path output_directory;
  /// To what is in its files, by an earlier run of the job.
  bool append_output = false;
  bool tag_output = true;
  int cpus_per_rank = 0;
  bool bind = true;
  /// The program, with its options, that runs a command on another host: it is given the host and
  /// the command.
  std::string remote_shell = "ssh -o BatchMode=yes -o ConnectTimeout=10";
  /// How long a host may take to answer.
  std::chrono::milliseconds connect_timeout{std::chrono::seconds{30}};
  /// Between asking ranks to end and killing them: where one has failed, and where the job itself
  /// is asked to end, so that they may leave a checkpoint. The second is within Slurm's and
  /// Kubernetes' 30 seconds.
  std::chrono::milliseconds grace{std::chrono::seconds{5}};
  std::chrono::milliseconds grace_when_asked{std::chrono::seconds{20}};
  /// Where other hosts reach the rendezvous store; empty takes this host's name.
  std::string store_host;
  /// 0 takes a free one.
  int store_port = 0;

  /// Of a job whose ranks come and go while it runs.
  struct Elastic {
    /// Ranks at least and at most; the job starts with JobOptions::ranks of them.
    int min_ranks = 1;
    int max_ranks = 1;
    /// Where hosts come from, in place of JobOptions::hosts; null: those are all.
    std::shared_ptr<elastic::HostSource> source;
    /// How long a host that lost a rank gets no other: the first time, and at last, doubling.
    std::chrono::milliseconds first_cooldown{1000};
    std::chrono::milliseconds last_cooldown{100000};
    /// Changes after which the job fails; -1 for any number.
    int reset_limit = -1;
    /// How long it waits for ranks.
    std::chrono::milliseconds timeout{std::chrono::seconds{600}};
  };
  std::optional<Elastic> elastic = {};
  /// Processes that hold the parameters, beside the ranks, which are their workers.
  struct ParameterServers {
    int count = 1;
    int staleness = 0;
    /// Where they save what they hold, "ps-<n>.state"; empty: nowhere.
    std::filesystem::path directory = {};
  };
  std::optional<ParameterServers> parameter_servers = {};
  /// How often a job that failed is started again, from its beginning.
  int restarts = 0;

  /// For whoever wants to know: a process runs; a host that had ranks is lost, or taken back.
  std::function<void(int rank, const std::string& host)> on_started = {};
  std::function<void(const std::string& host)> on_host_gone = {};
};

/// Runs the job and returns the exit code: 0, that of the first rank that failed (128 + signal when
/// it was killed; with parameter servers that of rank 0), or 124 at the timeout. Takes over SIGINT,
/// SIGTERM and SIGHUP while it runs. Throws InputError or Error where the job cannot be started; no
/// process is left then either.
int run_job(JobOptions options);

}  // namespace sullae
