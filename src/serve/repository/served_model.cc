#include "serve/repository/served_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <random>
#include <utility>

#include "base/log.h"
#include "base/request_error.h"
#include "repository/serving_state.h"
#include "repository/versions.h"

namespace sullae::serve {
namespace {

namespace fs = std::filesystem;

}  // namespace

const char* name_of(VersionState state) {
  switch (state) {
    case VersionState::loading:
      return "LOADING";
    case VersionState::ready:
      return "READY";
    case VersionState::refused:
      return "UNAVAILABLE";
    case VersionState::withdrawn:
      return "WITHDRAWN";
    case VersionState::waiting:
      return "WAITING";
  }
  return "";
}

ServedModel::ServedModel(const std::string& name, fs::path repository)
    : name_(name),
      repository_(std::move(repository)),
      directory_(repository_ / name),
      written_(repository::read_serving_state(directory_)),
      withdrawn_(written_.withdrawn),
      unpromoted_(written_.unpromoted),
      answered_before_(written_.serving),
      canary_(written_.canary),
      canary_percent_(written_.canary_percent) {}

// Without the lock that requests take, since a disk may be slow.
void ServedModel::write_state() {
  const std::lock_guard writing(state_mutex_);
  repository::ServingState state;
  {
    const std::lock_guard lock(mutex_);
    state = {.serving = serving_ > 0 ? serving_ : written_.serving,
             .withdrawn = withdrawn_,
             .unpromoted = unpromoted_,
             .canary = canary_percent_ > 0 ? canary_ : 0,
             .canary_percent = canary_percent_};
    for (const auto& [number, entry] : entries_) {
      if (entry.version) state.loaded.insert(number);
    }
  }
  if (written_ == state) return;
  repository::write_serving_state(directory_, state);
  written_ = state;
}

// A repository that cannot be written to is served all the same.
void ServedModel::keep_state() {
  std::string problem;
  try {
    write_state();
  } catch (const Error& error) {
    problem = error.what();
  }
  // It is tried again with each look, and said once.
  const std::lock_guard writing(state_mutex_);
  if (std::exchange(unwritten_, problem) != problem && !problem.empty())
    log::warning("model {}: what is served cannot be noted down: {}", name_, problem);
}

void ServedModel::report(const std::string& problem) {
  const std::lock_guard lock(mutex_);
  if (std::exchange(problem_, problem) != problem && !problem.empty())
    log::warning("model {}: {}", name_, problem);
}

std::vector<std::shared_ptr<Version>> ServedModel::take_versions() {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<Version>> versions;
  for (auto& [number, entry] : entries_) {
    if (entry.version) versions.push_back(std::move(entry.version));
  }
  entries_.clear();
  serving_ = 0;
  return versions;
}

// Of a hundred turns in a row as many as the percentage says, in an order that is another one each
// time: clients that send good and bad requests, or requests of two kinds, in turn must not find
// the canary in all of one kind.
bool ServedModel::is_canarys(std::uint64_t turn) const {
  constexpr std::uint64_t kRound = 100;
  const std::uint64_t round = turn / kRound;
  const auto place = static_cast<std::size_t>(turn % kRound);
  std::array<std::uint8_t, kRound> order{};
  std::iota(order.begin(), order.end(), std::uint8_t{0});
  std::shuffle(order.begin(), order.end(), std::minstd_rand(static_cast<std::uint32_t>(round + 1)));
  return order[place] < canary_percent_;
}

std::shared_ptr<Version> ServedModel::choose(std::optional<std::int64_t> number,
                                             Turn taking) const {
  const std::lock_guard lock(mutex_);
  if (!number) {
    if (canary_percent_ > 0 && taking == Turn::taken && is_canarys(turn_++)) {
      const auto canary = entries_.find(canary_);
      if (canary != entries_.end() && canary->second.version) return canary->second.version;
    }
    number = serving_;
  }
  const auto found = entries_.find(*number);
  if (found != entries_.end() && found->second.version) return found->second.version;
  if (*number == 0) {
    std::string reason = problem_.empty() ? config_problem_ : problem_;
    for (const auto& [version, entry] : entries_) {
      if (!entry.status.reason.empty())
        reason = fmt::format("version {} is refused: {}", version, entry.status.reason);
    }
    throw RequestError(Refusal::unavailable,
                       fmt::format("model '{}' has no version that is ready{}{}", name_,
                                   reason.empty() ? "" : ": ", reason));
  }
  throw RequestError(Refusal::not_found,
                     fmt::format("model '{}' serves no version {}", name_, *number));
}

bool ServedModel::answers() const {
  const std::lock_guard lock(mutex_);
  return serving_ > 0;
}

ModelStatus ServedModel::status() const {
  std::error_code error;
  const auto found = repository::versions_in(directory_, error).value_or(std::set<std::int64_t>());
  const std::lock_guard lock(mutex_);
  ModelStatus status{.name = name_,
                     .serving = serving_,
                     .canary = canary_percent_ > 0 ? canary_ : 0,
                     .canary_percent = canary_percent_,
                     .versions = {},
                     .problem = problem_.empty() ? config_problem_ : problem_};
  auto numbers = found;
  for (const auto& entry : entries_) numbers.insert(entry.first);
  for (const std::int64_t number : numbers) {
    const auto entry = entries_.find(number);
    VersionStatus version;
    if (entry != entries_.end()) {
      version = entry->second.status;
      version.version = entry->second.version;
    }
    version.number = number;
    if (!version.version && withdrawn_.contains(number)) {
      version.state = VersionState::withdrawn;
      version.reason = "rolled back";
    } else if (!version.version && version.reason.empty() && unpromoted_.contains(number)) {
      version.reason = "was a canary, and is not promoted";
    }
    status.versions.push_back(std::move(version));
  }
  return status;
}

// The lock under which the version that `wanted` names, under it, is loaded; 0 is none. It is named
// again after another has been loaded. Throws RequestError (conflict) where it is refused.
std::unique_lock<std::mutex> ServedModel::lock_with_ready(
    const std::function<std::int64_t()>& wanted) {
  std::unique_lock updating(update_mutex_, std::defer_lock);
  for (;;) {
    std::unique_lock lock(mutex_);
    const std::int64_t number = wanted();
    if (number == 0 || entries_[number].version) return lock;
    lock.unlock();
    if (!updating.owns_lock()) {
      updating.lock();
      read_config();
    } else if (const auto [held, is_ready] = make_ready(number); !is_ready) {
      throw RequestError(Refusal::conflict,
                         fmt::format("model '{}': version {} is refused: {}", name_, number,
                                     entries_[number].status.reason));
    }
  }
}

std::int64_t ServedModel::roll_back() {
  const auto found = repository::versions_in(directory_);
  std::int64_t before = 0;
  auto lock = lock_with_ready([&] {
    auto left = candidates(found);
    std::erase_if(left, [&](std::int64_t number) {
      return unpromoted_.contains(number) || config_.version_policy.leaves_out(number);
    });
    const auto newest = std::find_if(left.rbegin(), left.rend(),
                                     [&](std::int64_t number) { return number < serving_; });
    if (serving_ == 0 || newest == left.rend()) {
      throw RequestError(
          Refusal::conflict,
          fmt::format("model '{}': there is no version before {} to go back to", name_, serving_));
    }
    return before = *newest;
  });
  // Also those above it that wait.
  for (const std::int64_t number : found) {
    if (number >= serving_) withdrawn_.insert(number);
  }
  if (withdrawn_.contains(canary_) || canary_ == before) canary_percent_ = 0;
  log::info("model {}: version {} is rolled back", name_, serving_);
  serving_ = before;
  log::info("model {}: version {} answers now", name_, serving_);
  lock.unlock();
  keep_state();
  return before;
}

void ServedModel::set_canary(std::int64_t number, int percent) {
  if (percent < 0 || percent > 100) refuse(fmt::format("percent {}: expected 0 to 100", percent));
  const auto found = repository::versions_in(directory_);
  auto lock = lock_with_ready([&] {
    const bool ends_canary = percent == 0 && canary_percent_ > 0 && number == canary_;
    if (!found.contains(number) && !ends_canary)
      throw RequestError(Refusal::not_found,
                         fmt::format("model '{}' has no version {}", name_, number));
    if (percent == 100 && config_.version_policy.leaves_out(number))
      throw RequestError(
          Refusal::conflict,
          fmt::format("model '{}': version_policy in config.toml lists {}, and not "
                      "version {}: expected it there first",
                      name_, fmt::join(config_.version_policy.versions, ", "), number));
    if (number == serving_ && percent > 0 && percent < 100)
      throw RequestError(Refusal::conflict,
                         fmt::format("model '{}': version {} answers already: expected another one "
                                     "for a share of the requests",
                                     name_, number));
    if (percent == 0 && canary_percent_ > 0 && number != canary_)
      throw RequestError(Refusal::conflict,
                         fmt::format("model '{}': version {} has no share of the requests, but {}",
                                     name_, number, canary_));
    return percent > 0 ? number : 0;
  });
  withdrawn_.erase(number);
  if (percent < 100 && number > serving_ && found.contains(number)) unpromoted_.insert(number);
  if (percent == 100) {
    unpromoted_.erase(number);
    // What is newer would take its place.
    for (auto newer = found.upper_bound(number); newer != found.end(); ++newer)
      withdrawn_.insert(*newer);
  }
  canary_ = number;
  canary_percent_ = percent == 100 ? 0 : percent;
  log::info("model {}: {} % of the requests go to version {}", name_, percent, number);
  lock.unlock();
  keep_state();
}

void ServedModel::forget_refusals() {
  std::unique_lock lock(mutex_);
  std::erase_if(entries_, [](const auto& entry) {
    return entry.second.status.state == VersionState::refused;
  });
  withdrawn_.clear();
  lock.unlock();
  keep_state();
}

void ServedModel::choose_default(const std::set<std::int64_t>& keep) {
  std::int64_t newest = 0;
  for (const std::int64_t number : keep) {
    if (entries_[number].version && is_promoted(number)) newest = number;
  }
  // Where nothing else is ready, a version that is not wanted any more is better than none.
  if (newest != 0 && newest != serving_) answer_with(newest);
}

void ServedModel::answer_with(std::int64_t number) {
  log::info("model {}: version {} answers now{}", name_, number,
            serving_ > 0 ? fmt::format(", instead of {}", serving_) : "");
  serving_ = number;
  unpromoted_.erase(number);
  if (canary_ == number) canary_percent_ = 0;
}

}  // namespace sullae::serve
