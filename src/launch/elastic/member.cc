#include "launch/elastic/member.h"

#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <utility>

#include "base/log.h"
#include "launch/environment.h"
#include "sullae/adapter.h"
#include "sullae/error.h"
#include "transport/settings.h"

namespace sullae::elastic {
namespace {

std::atomic<bool> asked_to_go = false;

pid_t member_process = 0;

// A fork is no worker: it ends, as it would without this.
extern "C" void on_termination(int signal) {
  if (::getpid() == member_process) {
    asked_to_go = true;
    return;
  }
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}

// The launcher's end closes the connection: until then there may be something to hear.
constexpr std::chrono::hours kListens{24 * 365 * 100};
constexpr std::chrono::milliseconds kSignalPeriod{100};
// Worlds in a row, without one that could be joined.
constexpr int kMostNotJoined = 5;

}  // namespace

Member* Member::of_this_process() {
  // Outlives all that may ask it.
  static Member* const member = []() -> Member* {
    const Environment environment = process_environment();
    const auto number = environment(kWorkerVariable);
    if (!number) return nullptr;
    auto* const made = new Member(
        environment, static_cast<int>(parse_integer(*number, kWorkerVariable, 0, 1 << 30)));
    // What its thread uses goes with the process.
    std::atexit([] { of_this_process()->stop_listening(); });
    return made;
  }();
  return member;
}

Member::Member(const Environment& environment, int worker)
    : worker_(worker), timeout_(std::chrono::seconds{600}) {
  read_text(environment, "SULLAE_STORE", address_);
  read_seconds(environment, kTimeoutVariable, ZeroMeans::error, timeout_);
  secret_ = RendezvousSettings::from(environment).job_secret;
  const Deadline connects(std::chrono::minutes{1}, "the limit of a minute");
  outgoing_ = std::make_unique<Store>(StoreAddress::parse(address_), connects, "", secret_);
  incoming_ = std::make_unique<Store>(StoreAddress::parse(address_), connects, "", secret_);
  for (const auto* store : {outgoing_.get(), incoming_.get()}) store->watch();
  member_process = process_;
  struct sigaction action {};
  action.sa_handler = on_termination;
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGTERM, &action, nullptr);
  listener_ = std::thread([this] { listen(); });
}

void Member::stop_listening() {
  if (process_ != ::getpid()) return;  // a fork has no such thread
  try {
    send(WorkerMessage::Kind::exiting);
  } catch (const Error& error) {
    log::info("the launcher was not told of the end: {}", error.what());
  }
  incoming_->cancel();
  listener_.join();
}

void Member::world_ended(std::string reason) {
  reason_ = std::move(reason);
  ended_ = std::chrono::steady_clock::now();
  const std::lock_guard lock(mutex_);
  if (world_ && AdapterView(*world_).has_failed()) AdapterView(*world_).suspend_timeline();
}

std::optional<World> Member::join() {
  const auto began = std::exchange(ended_, {}).value_or(std::chrono::steady_clock::now());
  why_changed_ = reason_;
  std::optional<World> last;
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      if (world_) last = std::exchange(world_, {});
    }
    if (last) last->leave();
    say_that_it_leaves();
    send(WorkerMessage::Kind::ready, std::exchange(reason_, {}));
    const auto message = wait_for_world();
    if (!message) {
      leave();
      return std::nullopt;
    }
    if (auto world = try_to_join(*message)) {
      has_been_in_one_ = true;
      if (last) AdapterView(*world).go_on_from(*last);
      if (last && why_changed_.empty()) {
        const std::lock_guard lock(mutex_);
        why_changed_ = interrupt_reason_;
      }
      world->mark("WORLD_CHANGE",
                  fmt::format("generation {}: {} ranks{}{}", generation_, world->size(),
                              why_changed_.empty() ? "" : ": ", why_changed_),
                  began);
      return world;
    }
  }
}

std::optional<LauncherMessage> Member::wait_for_world() {
  std::unique_lock lock(mutex_);
  // The launcher has limits: a world of others may run as long as it likes. Its end is the
  // listener's.
  const auto may_go = [this] {
    return asked_to_go && (!has_been_in_one_ || (is_released_ && worlds_.empty()));
  };
  const auto has_message = [&] {
    return !worlds_.empty() || listener_error_ || may_go();
  };
  // A signal's handler can wake nobody.
  while (!changed_.wait_for(lock, kSignalPeriod, has_message)) {
    // What this worker has is perhaps nowhere else: the launcher says whether it is to keep it.
    lock.unlock();
    say_that_it_leaves();
    lock.lock();
  }
  if (listener_error_) std::rethrow_exception(listener_error_);
  if (may_go()) return std::nullopt;
  LauncherMessage next = std::move(worlds_.front());
  worlds_.pop_front();
  return next;
}

std::optional<World> Member::try_to_join(const LauncherMessage& message) {
  generation_ = message.generation;
  const auto is_abandoned = [&] {
    const std::lock_guard lock(mutex_);
    return abandoned_ >= message.generation;
  };
  if (is_abandoned()) return std::nullopt;
  WorldOptions options{
      .rank = message.rank, .size = message.size, .generation = message.generation};
  if (message.size > 1) options.store = address_;
  try {
    World world = create_job_world(options);
    std::unique_lock lock(mutex_);
    if (abandoned_ < message.generation) {
      world_ = world;
      not_joined_ = 0;
      return world;
    }
    lock.unlock();
    AdapterView(world).abandon("it was given up while it was made");
  } catch (const InputError&) {
    throw;  // the next one would be as wrong
  } catch (const Error& error) {
    // Where the launcher has said so, the others have gone for the same reason.
    if (!is_abandoned()) {
      log::warning("generation {} was not joined: {}", message.generation, error.what());
      reason_ = error.what();
      if (++not_joined_ == kMostNotJoined) throw;
    }
  }
  return std::nullopt;
}

bool Member::wants_out() {
  // Before the others hear of it, and come out for a reason that the launcher does not know.
  say_that_it_leaves();
  return interrupted_ >= generation_ || asked_to_go;
}
bool Member::leaves() const { return asked_to_go || goes_; }

void Member::say_that_it_leaves() {
  if (asked_to_go && !std::exchange(is_leaving_, true)) send(WorkerMessage::Kind::leaving);
}

void Member::leave() { send(WorkerMessage::Kind::left); }

void Member::listen() {
  ::pthread_setname_np(::pthread_self(), "sullae-elastic");
  try {
    for (int number = 0;; ++number) {
      const Deadline deadline(kListens, "the limit of a hundred years");
      on_message(LauncherMessage::from_json(
          incoming_->get(launcher_message_key(worker_, number), deadline)));
    }
  } catch (const std::exception& error) {
    const auto failed = [&] {
      const std::lock_guard lock(mutex_);
      return world_;
    }();
    // Which of the ranks it still has, only the launcher could say.
    if (failed && !failed->has_left())
      AdapterView(*failed).abandon("the launcher cannot be reached");
    const std::lock_guard lock(mutex_);
    listener_error_ = std::make_exception_ptr(Error(
        fmt::format("the launcher of this elastic job is not heard any more: {}", error.what())));
    changed_.notify_all();
  }
}

void Member::on_message(const LauncherMessage& message) {
  std::optional<World> failed;
  {
    const std::lock_guard lock(mutex_);
    switch (message.kind) {
      case LauncherMessage::Kind::interrupt:
        goes_ = message.goes;
        interrupted_ = message.generation;
        interrupt_reason_ = message.reason;
        break;
      case LauncherMessage::Kind::abandon:
        abandoned_ = message.generation;
        failed = world_;
        break;
      case LauncherMessage::Kind::form:
        goes_ = message.goes;
        if (message.goes) interrupted_ = message.generation;
        worlds_.push_back(message);
        break;
      case LauncherMessage::Kind::release:
        is_released_ = true;
        break;
    }
    changed_.notify_all();
  }
  // What waits in it for a rank that is gone waits no longer.
  if (failed) AdapterView(*failed).abandon(message.reason);
}

void Member::send(WorkerMessage::Kind kind, std::string reason) {
  const Deadline deadline(timeout_, kTimeoutVariable);
  outgoing_->set(worker_message_key(worker_, sent_++),
                 WorkerMessage{.kind = kind, .reason = std::move(reason)}.to_json(), deadline);
}

}  // namespace sullae::elastic
