// What update() does: looking at the folder, loading and dropping versions.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/file.h"
#include "base/log.h"
#include "repository/publish.h"
#include "repository/serving_state.h"
#include "repository/versions.h"
#include "serve/repository/served_model.h"

namespace sullae::serve {

namespace fs = std::filesystem;

ServedModel::Files ServedModel::look_at(const fs::path& directory) {
  Files files;
  std::error_code error;
  const auto entries = entries_of(directory, error);
  for (const fs::path& entry : entries.value_or(std::vector<fs::path>())) {
    if (fs::is_directory(fs::symlink_status(entry, error))) {
      const Files below = look_at(entry);
      files.bytes += below.bytes;
      files.newest = std::max(files.newest, below.newest);
    }
    if (!fs::is_regular_file(entry, error)) continue;
    const auto bytes = fs::file_size(entry, error);
    if (!error) files.bytes += static_cast<std::int64_t>(bytes);
    const auto time = fs::last_write_time(entry, error);
    if (!error) files.newest = std::max(files.newest, time);
  }
  return files;
}

void ServedModel::read_config() {
  const fs::path file = directory_ / repository::kModelConfig;
  std::error_code error;
  const auto time = fs::last_write_time(file, error);
  const bool missing = error == std::errc::no_such_file_or_directory;
  {
    const std::lock_guard lock(mutex_);
    if (!error && time == config_time_) return;
    if (missing && config_time_ == fs::file_time_type{} && !config_.written &&
        config_problem_.empty())
      return;
  }
  // Requests must not wait for the disk.
  std::string problem;
  std::optional<ModelConfig> config;
  try {
    if (error && !missing)
      throw InputError(fmt::format("{}: cannot be read: {}", file.string(), error.message()));
    config = read_model_config(file);
  } catch (const std::exception& wrong) {
    problem = wrong.what();
  }
  const std::lock_guard lock(mutex_);
  // One that could not be read may be next time.
  config_time_ = config && !error ? time : fs::file_time_type{};
  if (config) {
    config_ = *std::move(config);
    // What was refused may be right under the new configuration.
    std::erase_if(entries_, [](const auto& entry) {
      return entry.second.status.state == VersionState::refused;
    });
  }
  if (std::exchange(config_problem_, problem) != problem && !problem.empty())
    log::warning("model {}: {}", name_, problem);
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

// What others are newer than: the version that answers, or did when the server ended.
std::int64_t ServedModel::reference(const std::set<std::int64_t>& numbers) const {
  if (serving_ > 0) return serving_;
  return numbers.contains(answered_before_) ? answered_before_ : 0;
}

// It will be a canary.
bool ServedModel::is_new(std::int64_t number, std::int64_t reference) const {
  return config_.new_version_percent < 100 && reference > 0 && number > reference &&
         !unpromoted_.contains(number);
}

bool ServedModel::is_promoted(std::int64_t number) const {
  return !unpromoted_.contains(number) && !(canary_percent_ > 0 && number == canary_);
}

std::set<std::int64_t> ServedModel::wanted(const std::set<std::int64_t>& numbers) const {
  std::set<std::int64_t> result;
  const auto& policy = config_.version_policy;
  const std::int64_t answering = reference(numbers);
  const auto may_answer = [&](std::int64_t number) {
    return is_promoted(number) && !is_new(number, answering);
  };
  for (const std::int64_t number : policy.versions) {
    if (numbers.contains(number)) result.insert(number);
  }
  for (auto number = numbers.rbegin(); number != numbers.rend(); ++number) {
    // A canary is one more version, and not the newest that is served.
    if (policy.is_all() || (may_answer(*number) && result.size() < policy.latest))
      result.insert(*number);
  }
  if (canary_percent_ > 0 && numbers.contains(canary_)) result.insert(canary_);
  if (!numbers.empty() && !policy.leaves_out(*numbers.rbegin()) &&
      is_new(*numbers.rbegin(), answering))
    result.insert(*numbers.rbegin());
  // Canaries have a share of what another version answers.
  if (std::ranges::none_of(result, may_answer) && numbers.contains(answering))
    result.insert(answering);
  return result;
}

bool ServedModel::lists_none_of(const std::set<std::int64_t>& found) const {
  const std::lock_guard lock(mutex_);
  const auto& listed = config_.version_policy.versions;
  return !found.empty() && !listed.empty() &&
         std::ranges::none_of(listed, [&](std::int64_t number) { return found.contains(number); });
}

std::vector<std::shared_ptr<Version>> ServedModel::update(bool at_once) {
  const std::lock_guard updating(update_mutex_);
  read_config();
  const auto found = repository::versions_in(directory_);  // or all stays as it is
  report(lists_none_of(found) ? "version_policy in config.toml lists none of the versions there are"
                              : "");
  forget_changed(found);
  tell_changed();
  // Until nothing is left to load: where the newest is refused, the one before it is wanted.
  std::set<std::int64_t> tried;
  for (auto number = next_to_load(found, tried); number > 0; number = next_to_load(found, tried)) {
    tried.insert(number);
    if (at_once || is_settled(number)) load(number, found);
  }
  auto dropped = settle(found);
  keep_state();
  return dropped;
}

std::vector<std::shared_ptr<Version>> ServedModel::settle(const std::set<std::int64_t>& found) {
  std::vector<std::shared_ptr<Version>> dropped;
  const std::lock_guard lock(mutex_);
  looked_ = true;
  const auto numbers = candidates(found);
  // Those that a newer one's share came before.
  for (const std::int64_t number : numbers) {
    if (!unpromoted_.empty() && number < *unpromoted_.rbegin() &&
        is_new(number, reference(numbers)))
      unpromoted_.insert(number);
  }
  const auto keep = wanted(numbers);
  choose_default(keep);
  // Rather a version that nobody has promoted than none.
  const auto any = std::find_if(keep.rbegin(), keep.rend(), [&](std::int64_t number) {
    return entries_[number].version != nullptr;
  });
  if (serving_ == 0 && any != keep.rend()) answer_with(*any);
  for (auto& [number, entry] : entries_) {
    if (!entry.version || keep.contains(number) || number == serving_) continue;
    log::info("model {}: version {} is no longer served", name_, number);
    dropped.push_back(std::exchange(entry.version, nullptr));
    entry.status.reason.clear();
    entry.status.state =
        withdrawn_.contains(number) ? VersionState::withdrawn : VersionState::waiting;
  }
  return dropped;
}

// What the folders of such versions hold, where that is no longer what it was.
std::map<std::int64_t, ServedModel::Files> ServedModel::changed(
    const std::function<bool(const Entry&)>& is_asked) {
  std::map<std::int64_t, Files> files;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [number, entry] : entries_) {
      if (is_asked(entry)) files[number] = entry.files;
    }
  }
  // Requests must not wait for the disk.
  std::map<std::int64_t, Files> others;
  for (const auto& [number, before] : files) {
    const Files now = look_at(directory_ / std::to_string(number));
    if (now != before) others[number] = now;
  }
  return others;
}

// A version is what it was when it was loaded, until the server begins anew.
void ServedModel::tell_changed() {
  const auto others =
      changed([](const Entry& entry) { return entry.version && entry.status.reason.empty(); });
  const std::lock_guard lock(mutex_);
  for (const auto& [number, files] : others) {
    const auto entry = entries_.find(number);
    if (files == Files() || entry == entries_.end() || !entry->second.version) continue;
    entry->second.status.reason =
        "its files have changed since it was loaded: what answers is what they were; give what is "
        "new a number of its own";
    log::warning("model {}: version {}: {}", name_, number, entry->second.status.reason);
  }
}

void ServedModel::forget_changed(const std::set<std::int64_t>& found) {
  {
    const std::lock_guard lock(mutex_);
    // Numbers may be given again.
    const auto is_gone = [&](std::int64_t number) {
      return !found.contains(number);
    };
    std::erase_if(unpromoted_, is_gone);
    std::erase_if(withdrawn_, is_gone);
    if (is_gone(canary_)) canary_percent_ = 0;
    std::erase_if(entries_, [&](const auto& entry) {
      return !entry.second.version && !found.contains(entry.first);
    });
  }
  // A refused version whose files have changed since is another one.
  const auto others =
      changed([](const Entry& entry) { return entry.status.state == VersionState::refused; });
  const std::lock_guard lock(mutex_);
  for (const auto& [number, files] : others) {
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

// Of the files that all versions share.
std::string ServedModel::way_out() const {
  std::error_code error;
  for (const fs::path& entry : entries_of(directory_, error).value_or(std::vector<fs::path>())) {
    // Other versions are looked at when they are loaded.
    if (repository::version_number(entry.filename().string()) > 0) continue;
    if (auto way = repository::link_out_of(repository_, entry); !way.empty()) return way;
  }
  return {};
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

void ServedModel::load(std::int64_t number, const std::set<std::int64_t>& found) {
  const auto [lock, is_ready] = make_ready(number);
  if (!is_ready) return;
  if (withdrawn_.contains(number)) return;  // while it was loaded
  if (is_new(number, reference(candidates(found)))) {
    const bool is_newest = unpromoted_.empty() || number > *unpromoted_.rbegin();
    unpromoted_.insert(number);
    if (is_newest) {
      canary_ = number;
      canary_percent_ = config_.new_version_percent;
    }
  }
  // Whoever sees that it is ready, and asks without a number, is answered by it.
  std::set<std::int64_t> both{number};
  if (serving_ > 0) both.insert(serving_);
  choose_default(both);
}

// With mutex_ held from then on: whoever sees that it is ready sees what becomes of it, too.
std::pair<std::unique_lock<std::mutex>, bool> ServedModel::make_ready(std::int64_t number) {
  const fs::path directory = directory_ / std::to_string(number);
  ModelConfig config;
  std::string reason;
  {
    const std::lock_guard lock(mutex_);
    auto& status = entries_[number].status;
    status.number = number;
    status.state = VersionState::loading;
    config = config_;
    // Without its configuration a version would be served without its golden requests.
    reason = config_problem_;
  }
  if (reason.empty()) reason = way_out();
  if (reason.empty()) reason = repository::way_out_of(repository_, directory);
  const Files files = look_at(directory);
  const auto start = Clock::now();
  std::shared_ptr<Version> version;
  try {
    if (reason.empty()) version = std::make_shared<Version>(name_, number, directory, config);
  } catch (const std::exception& error) {
    reason = error.what();
  }
  std::unique_lock lock(mutex_);
  Entry& entry = entries_[number];
  entry.files = files;
  if (!version) {
    entry.status.state = VersionState::refused;
    entry.status.reason = reason;
    log::warning("model {}: version {} is refused: {}", name_, number, reason);
    return {std::move(lock), false};
  }
  entry.version = std::move(version);
  entry.status = {.number = number, .state = VersionState::ready};
  log::info("model {}: version {} is ready ({}, {:.1f} s)", name_, number,
            entry.version->model().platform(),
            std::chrono::duration<double>(Clock::now() - start).count());
  return {std::move(lock), true};
}

}  // namespace sullae::serve
