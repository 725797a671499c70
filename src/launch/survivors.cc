#include "launch/survivors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <span>

#include "base/interruption.h"
#include "base/log.h"
#include "launch/environment.h"
#include "launch/init.h"
#include "transport/joining_keys.h"
#include "transport/settings.h"
#include "transport/store/job_store.h"

namespace sullae {
namespace {

// A process that has ended is known to the launcher at once, and a host that is gone after a while.
constexpr std::chrono::seconds kSaidWithin{10};

std::string who_ended(std::span<const int> ranks) {
  return ranks.size() == 1 ? fmt::format("rank {} has ended", ranks[0])
                           : fmt::format("ranks {} have ended", fmt::join(ranks, ", "));
}

}  // namespace

std::unique_ptr<Survivors> Survivors::of_this_job(const World& world) {
  const Environment environment = process_environment();
  if (!environment("SULLAE_PS") || !environment("SULLAE_STORE")) return nullptr;
  const WorldOptions job = detect_world(environment);
  if (job.size != world.size() || job.rank != world.rank()) return nullptr;
  return std::unique_ptr<Survivors>(new Survivors(job));
}

Survivors::Survivors(const WorldOptions& job)
    : job_(job), heard_(process_environment(), [this](int rank) {
        const std::lock_guard lock(mutex_);
        ended_.push_back(rank);
        changed_.notify_all();
      }) {}

std::vector<int> Survivors::ended() const {
  const std::lock_guard lock(mutex_);
  return ended_;
}

void Survivors::expect_all_there() const {
  const std::lock_guard lock(mutex_);
  if (ended_.size() > number_)
    throw PeerError(ended_[number_], who_ended(std::span(ended_).subspan(number_)));
}

bool Survivors::wait_for_end() {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, kSaidWithin, [this] { return ended_.size() > number_; });
}

World Survivors::next() {
  for (const std::size_t before = number_;;) {
    const auto all = ended();
    try {
      reason_ = who_ended(std::span(all).subspan(before));
      return make(all);
    } catch (const InputError&) {
      throw;  // the next one would be as wrong
    } catch (const Error& error) {
      if (!wait_for_end()) throw;
      log::info("the world of those left was not made: {}", error.what());
    }
  }
}

World Survivors::make(const std::vector<int>& ended) {
  excuse(ended);
  number_ = ended.size();
  WorldOptions options = job_;
  options.rank = rank_without(ended, job_.rank);
  options.size = job_.size - static_cast<int>(ended.size());
  options.generation = static_cast<int>(number_);
  if (options.size == 1) options.store.clear();
  // Another one that ends has said where it is, perhaps, and will not say the rest.
  const Interruptible by_another([this, before = interruption_check()] {
    if (before) before();
    expect_all_there();
  });
  return join_anew(options);
}

// Who has heard of fewer ends than this rank waits for it in a world that it does not come to.
void Survivors::excuse(const std::vector<int>& ended) {
  if (number_ + 1 >= ended.size()) return;
  const Environment environment = process_environment();
  const Deadline deadline(RendezvousSettings::from(environment).timeout);
  Store store = job_store(environment, deadline);
  for (std::size_t number = number_ + 1; number < ended.size(); ++number)
    store.set(joining_key_without(std::span(ended).first(number), job_.rank), kHasEnded, deadline);
}

}  // namespace sullae
