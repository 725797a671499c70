#include "cluster/worker_pool.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/file.h"
#include "base/host.h"
#include "base/json_message.h"
#include "base/system_error.h"
#include "base/version.h"
#include "launch/job.h"
#include "launch/process.h"
#include "sullae/error.h"
#include "transport/store/lease.h"

namespace sullae::cluster {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMostHello = 65536;
constexpr std::chrono::seconds kHelloLimit{10};
// So many jobs of workers in a row that end without a word are no accident.
constexpr int kMostFruitless = 5;

std::string draw_secret() {
  std::array<unsigned char, 16> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    throw system_error("getrandom");
  return fmt::format("{:02x}", fmt::join(bytes, ""));
}

UniqueFd listen_anywhere() {
  UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  if (!socket || ::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(socket.get(), SOMAXCONN) != 0)
    throw system_error("a port for workers");
  return socket;
}

int port_of(const UniqueFd& socket) {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0)
    throw system_error("getsockname");
  return ntohs(address.sin_port);
}

void signal(const UniqueFd& event) {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(event.get(), &one, sizeof one);
}

// A host of the pool, whose worker is there already.
class PoolLauncher final : public HostLauncher {
 public:
  PoolLauncher(WorkerPool& pool, std::string host) : pool_(pool), host_(std::move(host)) {}
  AgentChannel start(const std::vector<std::string>&, const sigset_t&) override {
    return pool_.take(host_);
  }

 private:
  WorkerPool& pool_;
  std::string host_;
};

}  // namespace

std::string Hello::to_json() const {
  return Json{{"version", version},     {"secret", secret}, {"node", node},
              {"engine_id", engine_id}, {"slots", slots},   {"problem", problem}}
      .dump();
}

Hello Hello::from_json(const std::string& text) {
  const auto json = Json::parse(text);
  Hello hello;
  json.at("version").get_to(hello.version);
  json.at("secret").get_to(hello.secret);
  json.at("node").get_to(hello.node);
  json.at("engine_id").get_to(hello.engine_id);
  json.at("slots").get_to(hello.slots);
  json.at("problem").get_to(hello.problem);
  return hello;
}

WorkerPool::WorkerPool(WorkerPoolOptions options, Engine& engine, std::function<void()> on_failure)
    : options_(std::move(options)),
      engine_(engine),
      on_failure_(std::move(on_failure)),
      secret_(draw_secret()),
      listener_(listen_anywhere()),
      changed_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      stop_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      size_(options_.folder.size(options_.job)) {
  write_file(options_.folder.attempt(options_.attempt) / "coordinator.json",
             Json{{"address", options_.address.empty() ? host_name() : options_.address},
                  {"port", port_of(listener_)},
                  {"secret", secret_}}
                     .dump() +
                 "\n");
  thread_ = std::thread([this] {
    // The process's signals are the launcher's.
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
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
    std::vector<pollfd> polled{{stop_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
    for (const Stranger& stranger : strangers_)
      polled.push_back({stranger.socket.get(), POLLIN, 0});
    const auto wait = std::chrono::ceil<std::chrono::milliseconds>(next - Clock::now());
    ::poll(polled.data(), polled.size(), std::max(0, static_cast<int>(wait.count())));
    if (polled[0].revents != 0) return;
    for (std::size_t i = 0; i < strangers_.size(); ++i) {
      if (polled[i + 2].revents != 0) hear(strangers_[i]);
    }
    std::erase_if(strangers_, [](const Stranger& stranger) {
      return !stranger.socket || stranger.deadline.passed();
    });
    if (polled[1].revents != 0) listen();
    if (Clock::now() < next) continue;
    try {
      ask_engine();
      complained_ = false;
    } catch (const Error& error) {
      // It may be busy, or start again: who works goes on.
      if (!std::exchange(complained_, true)) say(error.what());
    }
    next = Clock::now() + options_.period;
  }
}

void WorkerPool::listen() {
  UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!socket) return;
  watch_connection(socket.get());
  strangers_.push_back(
      {std::move(socket), {}, Deadline(kHelloLimit, "the limit for a worker's first word")});
}

void WorkerPool::hear(Stranger& stranger) {
  std::array<char, 4096> buffer;
  const auto n = ::recv(stranger.socket.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (n < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (n <= 0 || stranger.text.size() > kMostHello) return stranger.socket.reset();
  stranger.text.append(buffer.data(), static_cast<std::size_t>(n));
  if (stranger.text.back() != '\n') return;
  std::string answer;
  UniqueFd socket = std::move(stranger.socket);
  const int fd = socket.get();
  try {
    answer = admit(Hello::from_json(stranger.text), socket);
  } catch (const Json::exception&) {
    return;  // somebody else's
  }
  if (!answer.empty()) {
    answer += '\n';
    [[maybe_unused]] const auto sent = ::send(fd, answer.data(), answer.size(), MSG_NOSIGNAL);
  }
}

// What it is answered; nothing where it has become a worker, and has been told so.
std::string WorkerPool::admit(const Hello& hello, UniqueFd& socket) {
  if (hello.secret != secret_) return "this is not the launcher of your job's attempt";
  ever_connected_.insert(hello.engine_id);
  fruitless_ = 0;
  if (hello.version != kVersion) {
    fail(fmt::format(
        "node {} has Sullae {}, and the job's launcher {}: the same on all nodes is needed",
        hello.node, hello.version, kVersion));
    return failure();
  }
  if (!hello.problem.empty()) {
    fail(fmt::format("node {}: {}", hello.node, hello.problem));
    return failure();
  }
  constexpr std::string_view kWelcome = "ok\n";
  if (::send(socket.get(), kWelcome.data(), kWelcome.size(), MSG_NOSIGNAL) < 0) return {};
  const std::lock_guard lock(mutex_);
  std::string name = hello.node;
  for (int other = 2; workers_.contains(name); ++other)
    name = fmt::format("{}.{}", hello.node, other);
  workers_[name] = {.engine_id = hello.engine_id,
                    .slots = hello.slots,
                    .socket = std::move(socket),
                    .number = next_number_++};
  has_changed_ = true;
  wake_launcher();
  return {};
}

void WorkerPool::ask_engine() {
  if (!options_.job.is_elastic()) return;
  const Size size = options_.folder.size(options_.job);
  if (!engine_.asks_for_workers()) {
    const std::lock_guard lock(mutex_);
    if (size == size_) return;
    size_ = size;
    has_changed_ = true;
    return wake_launcher();
  }
  const auto jobs =
      engine_.jobs(mark_of(options_.folder.path().parent_path()), options_.folder.id());
  std::vector<std::string> cancel;
  int nodes = 0;
  {
    const std::lock_guard lock(mutex_);
    if (size != size_) has_changed_ = true;
    size_ = size;
    live_.clear();
    for (const EngineJob& job : jobs) {
      if (job.mark.role != Role::workers || job.mark.submission != options_.submission) continue;
      const bool is_live = job.state == EngineState::pending || job.state == EngineState::running;
      if (!asked_.contains(job.id)) {
        if (is_live) cancel.push_back(job.id);  // of an attempt before
        continue;
      }
      if (is_live) {
        live_.push_back(job);
        nodes += job.nodes;
      } else if (known_ended_.insert(job.id).second) {
        note_end(job);
      }
    }
    // Slurm may have given a node up whose processes live on; and a worker that nobody uses holds a node.
    for (auto worker = workers_.begin(); worker != workers_.end();) {
      const auto job = std::ranges::find(live_, worker->second.engine_id, &EngineJob::id);
      if (job != live_.end()) {
        ++worker;
        continue;
      }
      worker = workers_.erase(worker);
      has_changed_ = true;
    }
    cancel.insert(cancel.end(), to_cancel_.begin(), to_cancel_.end());
    to_cancel_.clear();
    if (has_changed_) wake_launcher();
  }
  if (!cancel.empty()) engine_.cancel(cancel);
  if (fruitless_ >= kMostFruitless) {
    return fail(
        fmt::format("{} jobs of workers in a row ended before they had connected; see "
                    "slurm-workers-*.log in {}",
                    fruitless_, options_.folder.path().string()));
  }
  if (nodes < size.max_nodes) {
    // The least comes at once, so that two jobs do not wait for each other's nodes; the others as they can be had.
    int asked = nodes;
    if (asked == 0) {
      ask_for_workers(size.min_nodes);
      asked = size.min_nodes;
    }
    for (; asked < size.max_nodes; ++asked) ask_for_workers(1);
  } else if (nodes > size.max_nodes) {
    drop_surplus(nodes - size.max_nodes);
  }
}

// With the lock held. Those that were let go are no news.
void WorkerPool::note_end(const EngineJob& job) {
  if (!ever_connected_.contains(job.id)) ++fruitless_;
  if (job.state != EngineState::ended && job.state != EngineState::cancelled)
    say(fmt::format("{} ({}): {}", fmt::join(job.hosts, ", "), job.id, to_text(job.state)));
}

void WorkerPool::ask_for_workers(int nodes) {
  const Submission submission{.mark = {.jobs = mark_of(options_.folder.path().parent_path()),
                                       .id = options_.folder.id(),
                                       .submission = options_.submission,
                                       .role = Role::workers},
                              .job = options_.job,
                              .folder = options_.folder.path(),
                              .nodes = nodes,
                              .attempt = options_.attempt};
  asked_.insert(engine_.submit(submission));
}

// Those that wait first, then the youngest.
void WorkerPool::drop_surplus(int nodes) {
  std::vector<std::string> cancel;
  {
    const std::lock_guard lock(mutex_);
    for (auto job = live_.rbegin(); job != live_.rend() && nodes > 0; ++job) {
      if (job->state != EngineState::pending || job->nodes > nodes) continue;
      cancel.push_back(job->id);
      nodes -= job->nodes;
    }
    std::vector<std::pair<std::int64_t, Worker*>> youngest;
    for (auto& [name, worker] : workers_) youngest.emplace_back(-worker.number, &worker);
    std::ranges::sort(youngest, {}, &std::pair<std::int64_t, Worker*>::first);
    for (const auto& [number, worker] : youngest) {
      if (nodes == 0) break;
      if (!worker->unwanted) has_changed_ = true;
      worker->unwanted = true;
      --nodes;
    }
    if (has_changed_) wake_launcher();
  }
  engine_.cancel(cancel);
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
  supply.least = size_.min_nodes * options_.job.ranks_per_node;
  supply.most = size_.max_nodes * options_.job.ranks_per_node;
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

std::vector<Host> WorkerPool::wait_for(int nodes, const Deadline& deadline) {
  for (;;) {
    const auto hosts = first().hosts;
    if (static_cast<int>(hosts.size()) >= nodes) return hosts;
    if (const auto why = failure(); !why.empty()) throw Error(why);
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
