// A parameter server, for programs that run one in a process of their own; `sullae run --ps` and
// `sullae ps` start them else.
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>

#include "sullae/error.h"

namespace sullae::ps {

struct ServerOptions {
  /// Where it listens: ZeroMQ's address; `*` has the system choose a port.
  std::string endpoint = "tcp://127.0.0.1:*";
  /// Steps are not begun before so many workers have come; more may come later.
  int workers = 1;
  /// How many steps a worker may be ahead of the slowest. 0: gradients of all workers are averaged
  /// and applied as one, and training is what DistributedOptimizer does. -1: no bound.
  int staleness = 0;
  /// A worker of which nothing is heard for so long is waited for no more.
  std::chrono::milliseconds lease{10000};
  /// Where it saves what it holds, and takes it from when it begins; empty: nowhere.
  std::filesystem::path state_file = {};
  /// So long after a change, and when it is stopped.
  std::chrono::milliseconds save_every{10000};
  /// run() returns when as many workers as are expected have come and none is there any more; a
  /// minute later where one of them has failed, since it may be started again.
  bool ends_with_workers = false;
  /// What workers must know (SULLAE_JOB_SECRET, of the workers).
  std::string secret;
};

/// A parameter server in this process.
class Server {
 public:
  /// Listens. Throws InputError for options that cannot be, CheckpointError for a state file that
  /// is torn, Error where it cannot listen.
  explicit Server(const ServerOptions& options);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// With the port, for workers.
  const std::string& endpoint() const;
  /// Serves until stop(), or as ServerOptions::ends_with_workers says; in one thread.
  void run();
  /// Nobody waits for this worker any more; for who knows that its process has ended before its
  /// lease does. Any thread.
  void worker_ended(int worker);
  /// From any thread, and from handlers of signals.
  void stop() noexcept;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sullae::ps
