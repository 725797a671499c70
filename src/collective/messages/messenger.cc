#include "collective/messages/messenger.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>

#include "base/log.h"
#include "base/own_thread.h"
#include "sullae/error.h"
#include "transport/shm/waiting.h"

namespace sullae::messages {
namespace {

// Of kLooks looks each.
constexpr int kSpins = 100;
constexpr int kBackgroundSpins = 5;
constexpr int kLooks = 20;
constexpr int kYields = 200;
// Where not all that may happen rings a bell: room at a receiver's, a piece that the other side has
// written, or what comes by a second carrier.
constexpr std::chrono::microseconds kNap{200};
constexpr unsigned kRoundsToCheck = 256;
// What is watched is wanted once, and by who has to wait for others anyway.
constexpr std::chrono::milliseconds kLookPeriod{10};
// So long leave() waits for what is still to go out.
constexpr std::chrono::seconds kLeaveLimit{5};

}  // namespace

Messenger::Messenger(const MessengerOptions& options,
                     std::vector<std::unique_ptr<Carrier>> carriers)
    : options_(options),
      delivery_(options.rank, options.size, std::move(carriers), [this](Operation& operation) {
        const auto found = std::ranges::find_if(
            background_, [&](const auto& one) { return one.get() == &operation; });
        if (found != background_.end()) {
          ended_.push_back(std::move(*found));
          background_.erase(found);
        }
        // Another thread may wait for it.
        wake();
      }) {
  delivery_.set_wanted([this](std::uint64_t context) {
    if (const auto found = watched_.find(context); found != watched_.end()) found->second();
  });
}

Messenger::~Messenger() { close(); }

void Messenger::close() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    wake();
  }
  if (thread_.joinable()) thread_.join();
  const std::lock_guard lock(mutex_);
  delivery_.close();
}

class Messenger::Turn {
 public:
  explicit Turn(Messenger& messenger) : lock_(messenger.mutex_, std::defer_lock) {
    ++messenger.waiting_turns_;
    lock_.lock();
    --messenger.waiting_turns_;
  }
  Lock& lock() { return lock_; }

 private:
  Lock lock_;
};

void Messenger::check_open(const Context& context) const {
  if (closing_ || delivery_.is_closed(context))
    throw Error("messages: this rank has left the world");
}

void Messenger::run(Operation& operation) {
  Turn turn(*this);
  Lock& lock = turn.lock();
  check_open(*operation.context);
  delivery_.set_own(&operation);
  delivery_.begin(operation);
  delivery_.set_own(nullptr);
  if (!operation.done) {
    waiting_.push_back(&operation);
    try {
      for (int idle = 0; !operation.done;) {
        if (go_on(lock, idle, &operation) && !operation.done) check(operation);
      }
    } catch (...) {  // whatever it is, nothing may refer to the operation any more
      delivery_.set_own(nullptr);
      if (!operation.done) delivery_.give_up(operation, std::current_exception());
    }
    std::erase(waiting_, &operation);
    if (left_) changed_.notify_all();
  }
  leave_rest_to_thread();
  lock.unlock();
  if (operation.error) std::rethrow_exception(operation.error);
}

bool Messenger::start(const std::shared_ptr<Operation>& operation) {
  const Turn turn(*this);
  check_open(*operation->context);
  delivery_.begin(*operation);
  if (!operation->done) {
    background_.push_back(operation);
    start_thread();
  }
  leave_rest_to_thread();
  return operation->done;
}

// What is still to go out when the last one that waits has what it wanted.
void Messenger::leave_rest_to_thread() {
  if (delivery_.has_outgoing()) start_thread();
}

void Messenger::start_thread() {
  if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
  wake();
}

void Messenger::work() {
  in_own_thread = true;
  log::set_rank(options_.rank);
  Lock lock(mutex_);
  for (int idle = 0;;) {
    if (!ended_.empty()) {
      call_finished(lock);
    } else if (closing_ && background_.empty()) {
      return;
    } else if (!background_.empty() || delivery_.has_outgoing()) {
      if (!go_on(lock, idle, nullptr)) continue;
      const auto all = background_;
      for (const auto& operation : all) {
        if (!operation->done) check(*operation);
      }
    } else if (looks_after_watched_) {
      changed_.wait_for(lock, kLookPeriod);
      delivery_.round();
    } else {
      changed_.wait(lock);
    }
  }
}

void Messenger::watch(const Context& context, std::function<void()> wanted) {
  const Turn turn(*this);
  check_open(context);
  has_watched_ = true;
  if (delivery_.is_wanted(context)) wanted();
  watched_.emplace(context.number, std::move(wanted));
  if (looks_after_watched_) start_thread();
}

void Messenger::want(const Context& context) {
  const Turn turn(*this);
  check_open(context);
  for (const int peer : context.members) {
    if (peer != options_.rank) delivery_.want(context, peer);
  }
  leave_rest_to_thread();
}

std::string Messenger::address() const {
  for (const auto& carrier : delivery_.carriers()) {
    if (std::string address = carrier->address(); !address.empty()) return address;
  }
  return {};
}

void Messenger::learn(int rank, const std::string& address) {
  const Turn turn(*this);
  for (const auto& carrier : delivery_.carriers()) {
    if (!address.empty() && rank != options_.rank && carrier->reaches(rank))
      carrier->learn(rank, address);
  }
}

void Messenger::poll() {
  if (!has_watched_) return;
  const std::unique_lock lock(mutex_, std::try_to_lock);
  // Who holds it moves data itself.
  if (lock.owns_lock() && !closing_) delivery_.round();
}

void Messenger::look_after_watched() {
  const std::lock_guard lock(mutex_);
  if (closing_) return;
  looks_after_watched_ = true;
  if (has_watched_) start_thread();
}

void Messenger::call_finished(Lock& lock) {
  calling_.swap(ended_);
  lock.unlock();
  for (auto& operation : calling_) operation->finished(*operation);
  lock.lock();
  calling_.clear();
  changed_.notify_all();
}

bool Messenger::go_on(Lock& lock, int& idle, const Operation* own) {
  const bool background = own == nullptr;
  const bool spins = idle < (background ? kBackgroundSpins : kSpins) && may_spin();
  delivery_.set_own(own);
  bool moved = delivery_.round();
  // Locks are not let go for each look.
  for (int i = 0; spins && !moved && i < kLooks; ++i) {
    shm::pause_cpu();
    moved = delivery_.round();
  }
  delivery_.set_own(nullptr);
  if (moved) {
    idle = 0;
    give_turn(lock);
    return ++rounds_ % kRoundsToCheck == 0;
  }
  if (!spins && (background || idle >= kSpins + kYields)) {
    rest(lock);
    return true;
  }
  idle = spins ? idle + 1 : std::max(idle, kSpins) + 1;
  lock.unlock();
  spins ? shm::pause_cpu() : static_cast<void>(::sched_yield());
  lock.lock();
  return false;
}

bool Messenger::may_spin() {
  return std::ranges::all_of(delivery_.carriers(),
                             [](const auto& carrier) { return carrier->may_spin(); });
}

// A mutex that is let go and taken at once is not had by who sleeps for it.
void Messenger::give_turn(Lock& lock) {
  while (waiting_turns_ > 0) {
    lock.unlock();
    ::sched_yield();
    lock.lock();
  }
}

void Messenger::rest(Lock& lock) {
  ++asleep_;
  const auto carriers = delivery_.carriers();
  if (carriers.empty()) {
    changed_.wait_for(lock, shm::kLivenessPeriod);
  } else {
    const bool rings = carriers.size() == 1 && !delivery_.is_moving();
    const auto prepared = carriers[0]->prepare_sleep();
    lock.unlock();
    carriers[0]->sleep(prepared, rings ? shm::kLivenessPeriod : kNap);
    lock.lock();
  }
  --asleep_;
}

void Messenger::wake() noexcept {
  changed_.notify_all();
  if (asleep_ == 0) return;
  for (const auto& carrier : delivery_.carriers()) carrier->wake();
}

bool Messenger::refers_to(const Context& context) const {
  const auto has = [&](const auto& operations) {
    return std::ranges::any_of(operations,
                               [&](const auto& one) { return one->context == &context; });
  };
  return has(background_) || has(ended_) || has(calling_) || has(waiting_);
}

void Messenger::leave(const Context& context) {
  Turn turn(*this);
  Lock& lock = turn.lock();
  left_ = true;
  const auto limit = Clock::now() + kLeaveLimit;
  for (int idle = 0; (delivery_.has_sends(context) || delivery_.has_outgoing()) &&
                     !context.failure->first() && Clock::now() < limit;) {
    go_on(lock, idle, nullptr);
  }
  delivery_.close(context);
  watched_.erase(context.number);
  leave_rest_to_thread();
  std::vector<Operation*> rest;
  for (const auto& operation : background_) rest.push_back(operation.get());
  rest.insert(rest.end(), waiting_.begin(), waiting_.end());
  for (Operation* const operation : rest) {
    if (operation->context != &context || operation->done) continue;
    delivery_.give_up(
        *operation,
        std::make_exception_ptr(Error(fmt::format(
            "{}: rank {} left the world before the message with tag {} {}", operation->name(),
            options_.rank, operation->tag, operation->sends ? "was received" : "came"))));
  }
  wake();
  while (refers_to(context)) changed_.wait(lock);
}

}  // namespace sullae::messages
