// `sullae run`: starts the ranks of a job on hosts, shows their output, and ends them all when one
// fails.
#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "launch/hosts.h"

namespace sullae {

struct JobOptions {
  std::vector<std::string> command;
  int ranks = 1;
  /// Empty runs all ranks on this host.
  std::vector<Host> hosts;
  /// Variables for every rank.
  std::map<std::string, std::string> environment;
  /// Ends the job when it has run this long; zero sets no limit.
  std::chrono::milliseconds timeout{0};
  std::filesystem::path output_directory;
  bool tag_output = true;
  int cpus_per_rank = 0;
  bool bind = true;
  /// The program, with its options, that runs a command on another host: it is given the host and
  /// the command.
  std::string remote_shell = "ssh -o BatchMode=yes -o ConnectTimeout=10";
  /// How long a host may take to answer.
  std::chrono::milliseconds connect_timeout{std::chrono::seconds{30}};
  /// Between asking ranks to end and killing them.
  std::chrono::milliseconds grace{std::chrono::seconds{5}};
  /// Where other hosts reach the rendezvous store; empty takes this host's name.
  std::string store_host;
  /// 0 takes a free one.
  int store_port = 0;
};

/// Runs the job and returns the exit code: 0, that of the first rank that failed (128 + signal when
/// it was killed), or 124 at the timeout. Takes over SIGINT, SIGTERM and SIGHUP while it runs.
/// Throws InputError or Error where the job cannot be started; no process is left then either.
int run_job(const JobOptions& options);

}  // namespace sullae
