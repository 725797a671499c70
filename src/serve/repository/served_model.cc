#include "serve/repository/served_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "serve/repository/serving_state.h"
#include "serve/request_error.h"
#include "train/export.h"

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

ServedModel::ServedModel(std::string name, fs::path directory)
    : name_(std::move(name)),
      directory_(std::move(directory)),
      written_(read_serving_state(directory_)),
      withdrawn_(written_.withdrawn) {}

// Without the lock that requests take, since a disk may be slow.
void ServedModel::write_state() {
  const std::lock_guard writing(state_mutex_);
  ServingState state;
  {
    const std::lock_guard lock(mutex_);
    state = {.serving = serving_ > 0 ? serving_ : written_.serving, .withdrawn = withdrawn_};
  }
  // Tried once for each change, also where it cannot be written.
  if (std::exchange(written_, state) == state) return;
  write_serving_state(directory_, state);
}

ServedModel::Files ServedModel::look_at(const fs::path& directory) {
  Files files;
  std::error_code error;
  for (const auto& entry : fs::recursive_directory_iterator(directory, error)) {
    if (!entry.is_regular_file(error)) continue;
    files.bytes += static_cast<std::int64_t>(entry.file_size(error));
    files.newest = std::max(files.newest, entry.last_write_time(error));
  }
  return files;
}

void ServedModel::read_config() {
  const fs::path file = directory_ / train::kModelConfig;
  std::error_code error;
  const auto time = fs::last_write_time(file, error);
  const std::lock_guard lock(mutex_);
  if (!error && time == config_time_) return;
  if (error && config_time_ == fs::file_time_type{} && !config_.written) return;
  config_time_ = error ? fs::file_time_type{} : time;
  try {
    config_ = read_model_config(file);
    problem_.clear();
    // What was refused may be right under the new configuration.
    std::erase_if(entries_, [](const auto& entry) {
      return entry.second.status.state == VersionState::refused;
    });
  } catch (const Error& problem) {
    problem_ = problem.what();
    log::warning("model {}: {}", name_, problem_);
  }
}

std::set<std::int64_t> ServedModel::candidates(const std::set<std::int64_t>& found) const {
  std::set<std::int64_t> numbers;
  for (const std::int64_t number : found) {
    const auto entry = entries_.find(number);
    const bool refused =
        entry != entries_.end() && entry->second.status.state == VersionState::refused;
    if (!refused && !withdrawn_.contains(number)) numbers.insert(number);
  }
  return numbers;
}

std::set<std::int64_t> ServedModel::wanted(const std::set<std::int64_t>& numbers) const {
  std::set<std::int64_t> result;
  const auto& policy = config_.version_policy;
  for (const std::int64_t number : policy.versions) {
    if (numbers.contains(number)) result.insert(number);
  }
  for (auto number = numbers.rbegin(); number != numbers.rend(); ++number) {
    // A canary is one more version, and not the newest that is served.
    if (canary_percent_ > 0 && *number == canary_) continue;
    if (result.size() < policy.latest) result.insert(*number);
  }
  if (canary_percent_ > 0 && numbers.contains(canary_)) result.insert(canary_);
  return result;
}

std::vector<std::shared_ptr<Version>> ServedModel::update(bool at_once) {
  read_config();
  const auto found = versions_in(directory_);
  forget_changed(found);
  // Until nothing is left to load: where the newest version is refused, the one before it is wanted.
  std::set<std::int64_t> tried;
  for (auto number = next_to_load(found, tried); number > 0; number = next_to_load(found, tried)) {
    tried.insert(number);
    if (at_once || is_settled(number)) load(number);
  }
  auto dropped = settle(found);
  try {
    write_state();
  } catch (const Error& error) {
    // A repository that cannot be written to is served all the same.
    log::warning("model {}: what is served cannot be noted down: {}", name_, error.what());
  }
  return dropped;
}

std::vector<std::shared_ptr<Version>> ServedModel::settle(const std::set<std::int64_t>& found) {
  std::vector<std::shared_ptr<Version>> dropped;
  const std::lock_guard lock(mutex_);
  looked_ = true;
  const auto keep = wanted(candidates(found));
  choose_default(keep);
  for (auto& [number, entry] : entries_) {
    if (!entry.version || keep.contains(number) || number == serving_) continue;
    log::info("model {}: version {} is no longer served", name_, number);
    dropped.push_back(std::exchange(entry.version, nullptr));
    entry.status.state =
        withdrawn_.contains(number) ? VersionState::withdrawn : VersionState::waiting;
  }
  return dropped;
}

void ServedModel::forget_changed(const std::set<std::int64_t>& found) {
  std::map<std::int64_t, Files> refused;
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(entries_, [&](const auto& entry) {
      return !entry.second.version && !found.contains(entry.first);
    });
    for (const auto& [number, entry] : entries_) {
      if (entry.status.state == VersionState::refused) refused[number] = entry.files;
    }
  }
  // Requests must not wait for the disk.
  std::erase_if(refused, [&](const auto& version) {
    return look_at(directory_ / std::to_string(version.first)) == version.second;
  });
  // A refused version whose files have changed since is another one.
  const std::lock_guard lock(mutex_);
  for (const auto& [number, files] : refused) {
    const auto entry = entries_.find(number);
    if (entry == entries_.end()) continue;  // forgotten by a call in the meantime
    entry->second.status.state = VersionState::waiting;
    entry->second.status.reason.clear();
  }
}

// The newest first, so that service begins, and goes on, with what is wanted most. 0 for none.
std::int64_t ServedModel::next_to_load(const std::set<std::int64_t>& found,
                                       const std::set<std::int64_t>& tried) {
  const std::lock_guard lock(mutex_);
  const auto numbers = wanted(candidates(found));
  for (auto number = numbers.rbegin(); number != numbers.rend(); ++number) {
    if (!entries_[*number].version && !tried.contains(*number)) return *number;
  }
  return 0;
}

bool ServedModel::is_settled(std::int64_t number) {
  constexpr auto kFresh = std::chrono::milliseconds(500);
  const Files files = look_at(directory_ / std::to_string(number));
  const std::lock_guard lock(mutex_);
  const auto seen = unsettled_.find(number);
  const bool fresh = looked_ && fs::file_time_type::clock::now() - files.newest < kFresh;
  if (fresh && (seen == unsettled_.end() || seen->second != files)) {
    unsettled_[number] = files;
    return false;
  }
  unsettled_.erase(number);
  return true;
}

void ServedModel::load(std::int64_t number) {
  const fs::path directory = directory_ / std::to_string(number);
  ModelConfig config;
  {
    const std::lock_guard lock(mutex_);
    auto& status = entries_[number].status;
    status.number = number;
    status.state = VersionState::loading;
    config = config_;
  }
  const Files files = look_at(directory);
  const auto start = Clock::now();
  std::shared_ptr<Version> version;
  std::string reason;
  try {
    version = std::make_shared<Version>(name_, number, directory, config);
  } catch (const std::exception& error) {
    reason = error.what();
  }
  const std::lock_guard lock(mutex_);
  Entry& entry = entries_[number];
  entry.files = files;
  if (!version) {
    entry.status.state = VersionState::refused;
    entry.status.reason = reason;
    log::warning("model {}: version {} is refused: {}", name_, number, reason);
    return;
  }
  entry.version = std::move(version);
  entry.status = {.number = number, .state = VersionState::ready};
  if (serving_ > 0 && number > serving_ && config.new_version_percent < 100) {
    canary_ = number;
    canary_percent_ = config.new_version_percent;
  }
  log::info("model {}: version {} is ready ({}, {:.1f} s)", name_, number,
            entry.version->model().platform(),
            std::chrono::duration<double>(Clock::now() - start).count());
}

void ServedModel::choose_default(const std::set<std::int64_t>& keep) {
  std::int64_t newest = 0;
  for (const std::int64_t number : keep) {
    const bool is_canary = canary_percent_ > 0 && number == canary_;
    if (entries_[number].version && !is_canary) newest = number;
  }
  // Where nothing else is ready, a version that is not wanted any more is better than none.
  if (newest == 0 || newest == serving_) return;
  log::info("model {}: version {} answers now{}", name_, newest,
            serving_ > 0 ? fmt::format(", instead of {}", serving_) : "");
  serving_ = newest;
}

std::shared_ptr<Version> ServedModel::choose(std::optional<std::int64_t> number) const {
  const std::lock_guard lock(mutex_);
  if (!number) {
    // Spread evenly: of any hundred requests in a row, as many as the percentage says.
    if (canary_percent_ > 0) {
      const auto turn = turn_++;
      const auto share = static_cast<std::uint64_t>(canary_percent_);
      const auto canary = entries_.find(canary_);
      if ((turn + 1) * share / 100 != turn * share / 100 && canary != entries_.end() &&
          canary->second.version)
        return canary->second.version;
    }
    number = serving_;
  }
  const auto found = entries_.find(*number);
  if (found != entries_.end() && found->second.version) return found->second.version;
  if (*number == 0) {
    std::string reason = problem_;
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
  const auto found = versions_in(directory_);
  const std::lock_guard lock(mutex_);
  ModelStatus status{.name = name_,
                     .serving = serving_,
                     .canary = canary_percent_ > 0 ? canary_ : 0,
                     .canary_percent = canary_percent_,
                     .versions = {},
                     .problem = problem_};
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
    }
    status.versions.push_back(std::move(version));
  }
  return status;
}

std::int64_t ServedModel::roll_back() {
  const auto found = versions_in(directory_);
  std::unique_lock lock(mutex_);
  const auto left = candidates(found);
  const auto before = std::find_if(left.rbegin(), left.rend(),
                                   [&](std::int64_t number) { return number < serving_; });
  if (serving_ == 0 || before == left.rend()) {
    throw RequestError(
        Refusal::conflict,
        fmt::format("model '{}': there is no version before {} to go back to", name_, serving_));
  }
  // Also those above it that wait.
  for (const std::int64_t number : found) {
    if (number >= serving_) withdrawn_.insert(number);
  }
  if (withdrawn_.contains(canary_)) canary_percent_ = 0;
  log::info("model {}: version {} is rolled back", name_, serving_);
  lock.unlock();
  write_state();
  return *before;
}

void ServedModel::set_canary(std::int64_t number, int percent) {
  if (percent < 0 || percent > 100)
    throw RequestError(Refusal::invalid, fmt::format("percent {}: expected 0 to 100", percent));
  const auto found = versions_in(directory_);
  std::unique_lock lock(mutex_);
  if (percent > 0 && !found.contains(number))
    throw RequestError(Refusal::not_found,
                       fmt::format("model '{}' has no version {}", name_, number));
  withdrawn_.erase(number);
  if (percent == 100) {
    // What is newer would take its place.
    for (auto newer = found.upper_bound(number); newer != found.end(); ++newer)
      withdrawn_.insert(*newer);
  }
  canary_ = number;
  canary_percent_ = percent == 100 ? 0 : percent;
  log::info("model {}: {} % of the requests go to version {}", name_, percent, number);
  lock.unlock();
  write_state();
}

void ServedModel::forget_refusals() {
  std::unique_lock lock(mutex_);
  std::erase_if(entries_, [](const auto& entry) {
    return entry.second.status.state == VersionState::refused;
  });
  withdrawn_.clear();
  lock.unlock();
  write_state();
}

}  // namespace sullae::serve
