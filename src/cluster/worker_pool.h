// The nodes that a job's launcher works with: workers, which the engine starts on nodes, connect to
// it, and what they hold becomes hosts of the launcher.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/deadline.h"
#include "base/fd.h"
#include "cluster/engine.h"
#include "cluster/hello.h"
#include "cluster/job_folder.h"
#include "cluster/reception.h"
#include "cluster/worker_plan.h"
#include "launch/elastic/host_source.h"
#include "launch/host_launcher.h"
#include "sullae/error.h"

namespace sullae::cluster {

/// A signal that ends this process came before there was a launcher to take it.
class AskedToEnd : public Error {
 public:
  explicit AskedToEnd(int signal)
      : Error("asked to end while workers were waited for"), signal_(signal) {}
  int signal() const { return signal_; }

 private:
  int signal_;
};

struct WorkerPoolOptions {
  JobFolder folder;
  Job job;
  int submission = 1;
  int attempt = 1;
  /// Of the launcher, for workers; empty: this host's name.
  std::string address;
  /// Between two questions to the engine.
  std::chrono::milliseconds period{3000};
};

/// A thread of its own talks with workers and the engine, asks it for more workers where there are
/// fewer than the job may have, and lets go of those that are too many. The launcher's thread uses
/// it as the source of its hosts. A job of fixed size has all workers that it will ever have in its
/// own allocation.
class WorkerPool final : public elastic::HostSource {
 public:
  /// Writes coordinator.json into the attempt's folder. `on_failure` is called, at most once and
  /// from the pool's thread, where no worker can be had; failure() then says why.
  WorkerPool(WorkerPoolOptions options, Engine& engine, std::function<void()> on_failure);
  ~WorkerPool() override;

  elastic::Supply first() override;
  int fd() const override { return changed_.get(); }
  std::chrono::steady_clock::time_point next() const override;
  std::optional<elastic::Supply> turn() override;
  void released(const std::string& host) override;

  /// Waits until so many nodes have connected. Throws TimeoutError, and AskedToEnd for a signal
  /// that is blocked, and pending.
  std::vector<Host> wait_for(int nodes, const Deadline& deadline);
  /// What starts an agent on a host of the pool.
  std::unique_ptr<HostLauncher> launcher_of(const std::string& host);
  /// The way to the worker there, once; to nobody where it has gone.
  AgentChannel take(const std::string& host);

  std::string failure() const;

 private:
  struct Worker {
    std::string engine_id;
    int slots = 1;
    UniqueFd socket;  // until the launcher takes it
    bool unwanted = false;
    std::int64_t number = 0;
  };
  static void check_for_end_signals();

  void run();
  void answer(Reception::Caller caller);
  std::string admit(const Hello& hello, UniqueFd& socket);
  void ask_engine();
  void ask_for_workers(int nodes);
  void let_go(int count);
  std::string refuse(const Hello& hello, const std::string& why);
  void fail(const std::string& reason);
  void wake_launcher();
  elastic::Supply supply() const;

  WorkerPoolOptions options_;
  Engine& engine_;
  std::function<void()> on_failure_;
  std::string secret_;  // by which the launcher knows workers
  std::string answer_;  // and they it
  Reception reception_;
  UniqueFd changed_;  // for the launcher
  UniqueFd stop_;
  const Mark mark_;  // of the engine's jobs of workers
  WorkerPlan plan_;
  bool complained_ = false;
  int refusals_ = 0;                     // of workers, in a row
  std::vector<std::string> cancelling_;  // until the engine has done so

  mutable std::mutex mutex_;               // guards all below
  std::map<std::string, Worker> workers_;  // by the name of their host
  std::int64_t next_number_ = 0;
  Size size_;
  bool has_changed_ = false;
  std::string failure_;
  std::map<std::string, int> names_;  // how often a node's name was taken
  std::vector<std::string> to_cancel_;

  std::thread thread_;
};

}  // namespace sullae::cluster
