#include "cluster/worker_pool.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "base/file.h"
#include "base/host.h"
#include "base/json_message.h"
#include "base/secret.h"
#include "base/version.h"
#include "launch/job.h"
#include "launch/job_signals.h"
#include "launch/process.h"
#include "sullae/error.h"

namespace sullae::cluster {
namespace {

using Json = nlohmann::json;

// So many jobs of workers in a row that end without a word are no accident.
constexpr int kMostFruitless = 5;
// Nor does an engine that has refused so often change its mind.
constexpr int kMostRefusals = 3;

void signal(const UniqueFd& event) {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(event.get(), &one, sizeof one);
}

// A host of the pool, whose worker is there already.
class PoolLauncher final : public HostLauncher {
 public:
  PoolLauncher(WorkerPool& pool, std::string host) : pool_(pool), host_(std::move(host)) {}
  AgentChannel start(const std::vector<std::string>&) override { return pool_.take(host_); }

 private:
  WorkerPool& pool_;
  std::string host_;
};

}  // namespace

WorkerPool::WorkerPool(WorkerPoolOptions options, Engine& engine, std::function<void()> on_failure)
    : options_(std::move(options)),
      engine_(engine),
      on_failure_(std::move(on_failure)),
      secret_(draw_secret()),
      answer_(draw_secret()),
      changed_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      stop_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      mark_{.jobs = mark_of(options_.folder.path().parent_path()),
            .id = options_.folder.id(),
            .submission = options_.submission,
            .role = Role::workers},
      plan_(options_.submission),
      size_(options_.folder.size(options_.job)) {
  LauncherAddress{.host = options_.address.empty() ? host_name() : options_.address,
                  .port = reception_.port(),
                  .secret = secret_,
                  .answer = answer_}
      .write(options_.folder.attempt(options_.attempt));
  thread_ = std::thread([this] {
    // The process's signals are the launcher's.
    block_signals();
    run();
  });
}

WorkerPool::~WorkerPool() {
  signal(stop_);
  thread_.join();
}

void WorkerPool::run() {
  auto next = Clock::now();
  for (;;) {
    std::vector<pollfd> polled{{stop_.get(), POLLIN, 0}};
    reception_.poll_for(polled);
    const auto wait = std::chrono::ceil<std::chrono::milliseconds>(next - Clock::now());
    ::poll(polled.data(), polled.size(), std::max(0, static_cast<int>(wait.count())));
    if (polled[0].revents != 0) return;
    for (auto& caller : reception_.turn(polled, 1)) answer(std::move(caller));
    if (Clock::now() < next) continue;
    try {
      ask_engine();
      complained_ = false;
    } catch (const std::exception& error) {
      // It, or the storage, may be busy, or start again: who works goes on.
      if (!std::exchange(complained_, true)) say(error.what());
    }
    next = Clock::now() + options_.period;
  }
}

void WorkerPool::answer(Reception::Caller caller) {
  const int fd = caller.socket.get();
  std::string answer;
  try {
    answer = admit(Hello::from_json(caller.line), caller.socket);
  } catch (const Json::exception&) {
    return;  // somebody else's
  }
  if (answer.empty()) return;
  answer += '\n';
  [[maybe_unused]] const auto sent = ::send(fd, answer.data(), answer.size(), MSG_NOSIGNAL);
}

// What it is answered; nothing where it has become a worker, and has been told so.
std::string WorkerPool::admit(const Hello& hello, UniqueFd& socket) {
  if (hello.secret != secret_) return "this is not the launcher of your job's attempt";
  if (hello.version != kVersion) {
    return refuse(hello, fmt::format("node {} has Sullae {}, and the job's launcher {}: the same "
                                     "on all nodes is needed",
                                     hello.node, hello.version, kVersion));
  }
  if (!hello.problem.empty())
    return refuse(hello, fmt::format("node {}: {}", hello.node, hello.problem));
  const std::string welcome = "ok " + answer_ + "\n";
  if (::send(socket.get(), welcome.data(), welcome.size(), MSG_NOSIGNAL) < 0) return {};
  plan_.admitted(hello.engine_id);
  const std::lock_guard lock(mutex_);
  // A name is one worker's for as long as the attempt lasts: the launcher may still think of the
  // last one.
  const int others = names_[hello.node]++;
  const auto name = others == 0 ? hello.node : fmt::format("{}#{}", hello.node, others + 1);
  workers_[name] = {.engine_id = hello.engine_id,
                    .slots = hello.slots,
                    .socket = std::move(socket),
                    .number = next_number_++};
  has_changed_ = true;
  wake_launcher();
  return {};
}

// One node that is not like the others does not end a job that runs.
std::string WorkerPool::refuse(const Hello& hello, const std::string& why) {
  bool is_first = false;
  {
    const std::lock_guard lock(mutex_);
    is_first = next_number_ == 0;
    to_cancel_.push_back(hello.engine_id);
  }
  if (is_first) {
    fail(why);
  } else {
    say(why);
  }
  return why;
}

void WorkerPool::ask_engine() {
  if (!options_.job.is_elastic()) return;
  const Size size = options_.folder.size(options_.job);
  std::map<std::string, int> present;
  {
    const std::lock_guard lock(mutex_);
    if (size != size_) {
      size_ = size;
      has_changed_ = true;
      wake_launcher();
    }
    for (const auto& [name, worker] : workers_) ++present[worker.engine_id];
    cancelling_.insert(cancelling_.end(), to_cancel_.begin(), to_cancel_.end());
    to_cancel_.clear();
  }
  if (!engine_.asks_for_workers()) return;
  for (const auto& id : cancelling_) plan_.let_go(id);
  const auto jobs = engine_.jobs(mark_.jobs, mark_.id);
  const auto decision = plan_.decide(jobs, present, size);
  for (const EngineJob& job : decision.ended) {
    if (job.state != EngineState::ended && job.state != EngineState::cancelled)
      say(fmt::format("{} ({}): {}", fmt::join(job.hosts, ", "), job.id, to_text(job.state)));
  }
  let_go(decision.release);
  // One that has ended meanwhile could not be cancelled, however often it is tried.
  std::erase_if(cancelling_, [&](const std::string& id) {
    return std::ranges::none_of(jobs,
                                [&](const EngineJob& job) { return job.id == id && is_live(job); });
  });
  cancelling_.insert(cancelling_.end(), decision.cancel.begin(), decision.cancel.end());
  if (!cancelling_.empty()) engine_.cancel(cancelling_);
  cancelling_.clear();
  if (plan_.fruitless() >= kMostFruitless && present.empty()) {
    return fail(
        fmt::format("{} jobs of workers in a row ended before they had connected; see "
                    "slurm-workers-*.log in {}",
                    plan_.fruitless(), options_.folder.path().string()));
  }
  try {
    for (const int nodes : decision.ask) ask_for_workers(nodes);
    refusals_ = 0;
  } catch (const InputError& error) {
    // What waiting does not mend.
    if (!present.empty() || ++refusals_ < kMostRefusals) throw;
    fail(error.what());
  }
}

void WorkerPool::ask_for_workers(int nodes) {
  const Submission submission{.mark = mark_,
                              .job = options_.job,
                              .folder = options_.folder.path(),
                              .nodes = nodes,
                              .attempt = options_.attempt};
  plan_.asked(engine_.submit(submission), nodes);
}

// So many of the youngest; and those whose engine's job is over: it may have given a node up whose
// processes live on.
void WorkerPool::let_go(int count) {
  const std::lock_guard lock(mutex_);
  has_changed_ |= std::erase_if(workers_, [&](const auto& one) {
                    return plan_.is_over(one.second.engine_id);
                  }) > 0;
  std::vector<std::pair<std::int64_t, Worker*>> youngest;
  for (auto& [name, worker] : workers_) youngest.emplace_back(-worker.number, &worker);
  std::ranges::sort(youngest, {}, &std::pair<std::int64_t, Worker*>::first);
  for (const auto& [number, worker] : youngest) {
    if (count-- <= 0) break;
    has_changed_ |= !std::exchange(worker->unwanted, true);
  }
  if (has_changed_) wake_launcher();
}

void WorkerPool::fail(const std::string& reason) {
  {
    const std::lock_guard lock(mutex_);
    if (!failure_.empty()) return;
    failure_ = reason;
  }
  say(reason);
  on_failure_();
}

void WorkerPool::wake_launcher() { signal(changed_); }

elastic::Supply WorkerPool::supply() const {
  elastic::Supply supply;
  std::vector<std::pair<std::int64_t, Host>> oldest;
  for (const auto& [name, worker] : workers_) {
    if (!worker.unwanted) oldest.emplace_back(worker.number, Host{name, worker.slots});
  }
  std::ranges::sort(oldest, {}, &std::pair<std::int64_t, Host>::first);
  for (auto& [number, host] : oldest) supply.hosts.push_back(std::move(host));
  supply.min_ranks = size_.min_nodes * options_.job.ranks_per_node;
  supply.max_ranks = size_.max_nodes * options_.job.ranks_per_node;
  return supply;
}

elastic::Supply WorkerPool::first() {
  const std::lock_guard lock(mutex_);
  has_changed_ = false;
  return supply();
}

std::chrono::steady_clock::time_point WorkerPool::next() const {
  return Clock::now() + std::chrono::seconds{60};
}

std::optional<elastic::Supply> WorkerPool::turn() {
  std::uint64_t count = 0;
  [[maybe_unused]] const auto read = ::read(changed_.get(), &count, sizeof count);
  const std::lock_guard lock(mutex_);
  if (!std::exchange(has_changed_, false)) return std::nullopt;
  return supply();
}

void WorkerPool::released(const std::string& host) {
  const std::lock_guard lock(mutex_);
  const auto found = workers_.find(host);
  if (found == workers_.end()) return;
  const std::string id = found->second.engine_id;
  workers_.erase(found);
  has_changed_ = true;
  const bool has_others =
      std::ranges::any_of(workers_, [&](const auto& one) { return one.second.engine_id == id; });
  if (!has_others) to_cancel_.push_back(id);
}

// They are the launcher's, which does not run yet: blocked, and so pending.
void WorkerPool::check_for_end_signals() {
  if (const auto signal = pending_end_signal()) throw AskedToEnd(*signal);
}

std::vector<Host> WorkerPool::wait_for(int nodes, const Deadline& deadline) {
  for (;;) {
    auto hosts = first().hosts;
    if (static_cast<int>(hosts.size()) >= nodes) return hosts;
    if (const auto why = failure(); !why.empty()) throw Error(why);
    check_for_end_signals();
    if (deadline.passed()) {
      throw TimeoutError(fmt::format("{} of {} nodes have connected {}; see slurm-*.log in {}",
                                     hosts.size(), nodes, deadline.describe(),
                                     options_.folder.path().string()));
    }
    pollfd polled{changed_.get(), POLLIN, 0};
    ::poll(&polled, 1,
           static_cast<int>(std::min<std::int64_t>(deadline.remaining().count(), 1000)));
    std::uint64_t count = 0;
    [[maybe_unused]] const auto read = ::read(changed_.get(), &count, sizeof count);
  }
}

std::unique_ptr<HostLauncher> WorkerPool::launcher_of(const std::string& host) {
  return std::make_unique<PoolLauncher>(*this, host);
}

AgentChannel WorkerPool::take(const std::string& host) {
  const std::lock_guard lock(mutex_);
  const auto found = workers_.find(host);
  if (found == workers_.end() || !found->second.socket) {
    // Gone meanwhile: what is read ends at once.
    Pipe input = make_pipe();
    Pipe output = make_pipe();
    return {std::move(input.write), std::move(output.read)};
  }
  AgentChannel channel;
  channel.output = UniqueFd(::fcntl(found->second.socket.get(), F_DUPFD_CLOEXEC, 0));
  channel.input = std::move(found->second.socket);
  return channel;
}

std::string WorkerPool::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

}  // namespace sullae::cluster
