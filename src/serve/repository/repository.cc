#include "serve/repository/repository.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/file.h"
#include "base/file_lock.h"
#include "base/interruption.h"
#include "base/log.h"
#include "base/number.h"
#include "base/request_error.h"
#include "repository/publish.h"
#include "repository/serving_state.h"
#include "repository/versions.h"
#include "serve/model/config.h"

namespace sullae::serve {
namespace {

namespace fs = std::filesystem;

// Null where the folder cannot be written to. Throws InputError where another process has it.
UniqueFd lock_of(const fs::path& file) {
  constexpr mode_t kMode = 0666;
  UniqueFd fd(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, kMode));
  if (!fd) return fd;
  try {
    if (try_lock(fd.get(), file)) return fd;
  } catch (const Error& error) {
    log::warning("{}: nothing keeps another server from serving this repository", error.what());
    return fd;
  }
  throw InputError(fmt::format(
      "{}: another server serves this repository: end it, or serve a copy of the folder "
      "(--repository-copy, of one in a store)",
      file.parent_path().string()));
}

// Folders without versions and configuration are something else, such as lost+found.
bool is_model(const fs::path& directory) {
  std::error_code error;
  const auto versions = repository::versions_in(directory, error);
  // One that cannot be listed is reported as a model with a problem, if it has ever been one.
  return !versions || !versions->empty() || fs::exists(directory / repository::kModelConfig, error);
}

// Of a model in a store: what its policy serves, what answers here, and a version to roll back to.
std::set<std::int64_t> versions_to_copy(const fs::path& model,
                                        const std::set<std::int64_t>& there) {
  const auto state = repository::read_serving_state(model);
  VersionPolicy policy;
  try {
    policy = read_model_config(model / repository::kModelConfig).version_policy;
  } catch (const InputError&) {  // said when the model is loaded
  }
  std::set<std::int64_t> wanted(policy.versions.begin(), policy.versions.end());
  // What is not here has no decisions of operators.
  wanted.insert(state.withdrawn.begin(), state.withdrawn.end());
  wanted.insert(state.unpromoted.begin(), state.unpromoted.end());
  wanted.insert({state.serving, state.canary});
  wanted.insert(state.loaded.begin(), state.loaded.end());
  const std::size_t newest = policy.is_all() ? there.size() : policy.latest + 1;
  std::size_t found = 0;
  for (auto number = there.rbegin(); number != there.rend() && found < newest; ++number) {
    wanted.insert(*number);
    if (!state.withdrawn.contains(*number)) ++found;
  }
  return wanted;
}

}  // namespace

Repository::Repository(const RepositoryOptions& options) : options_(options) {
  if (!options_.remote.empty()) mirror_.emplace(options_.remote, options_.directory);
  repository::expect_repository(options_.directory);
  // Two servers would overwrite each other's notes of what is served. A folder that cannot be
  // written to has none.
  lock_ = lock_of(options_.directory / repository::kServingLock);
}

Repository::~Repository() { stop(); }

void Repository::stop() {
  {
    const std::lock_guard lock(watch_mutex_);
    stopping_ = true;
  }
  stop_.notify_all();
  if (watcher_.joinable()) watcher_.join();
}

void Repository::start() {
  find_models();
  const auto found = models();
  if (found.empty())
    log::warning("{}: has no model yet; expected <model>/<version>/{} there",
                 options_.directory.string(), repository::kModelFileNames);
  for (const auto& model : found) update(*model);
  started_ = true;
  if (on_look_) on_look_();
  watcher_ = std::thread([this] { watch(); });
}

// A store that does not answer now has what is here already.
void Repository::update_copy() {
  std::string problem;
  try {
    mirror_->update(&versions_to_copy);
  } catch (const std::exception& error) {
    const bool is_mistake = dynamic_cast<const repository::NoRepository*>(&error) != nullptr;
    if (!started_ && (is_mistake || !mirror_->has_copy())) throw;
    if (!stopping_) problem = error.what();
  }
  if (std::exchange(copy_problem_, problem) != problem && !problem.empty())
    log::warning("{}; what was copied before is served", problem);
}

// A folder that cannot be listed now is taken to be as it was.
void Repository::find_models() {
  const std::lock_guard finding(find_mutex_);
  if (mirror_) update_copy();
  std::error_code error;
  const auto entries = entries_of(options_.directory, error);
  if (!entries) {
    log::warning("{}: cannot be listed: {}", options_.directory.string(), error.message());
    return;
  }
  std::set<std::string> there;
  for (const fs::path& entry : *entries) {
    const auto name = entry.filename().string();
    const bool is_folder = fs::is_directory(entry, error);
    const bool unknown = error && error != std::errc::no_such_file_or_directory;
    if (name.starts_with('.') || (!is_folder && !unknown)) continue;
    if (!repository::is_model_name(name)) {
      if (is_model(entry) && refused_.insert(name).second)
        log::warning("model {}: is not served: {}", name, repository::kModelNames);
      continue;
    }
    if (const auto way = repository::link_out_of(options_.directory, entry); !way.empty()) {
      if (refused_.insert(name).second) log::warning("model {}: is not served: {}", name, way);
      continue;
    }
    refused_.erase(name);
    if (unknown || is_model(entry)) there.insert(name);
  }
  std::vector<std::shared_ptr<ServedModel>> gone;
  {
    std::map<std::string, std::shared_ptr<ServedModel>> fresh;
    for (const auto& name : there) {
      if (!knows(name))
        fresh.emplace(name, std::make_shared<ServedModel>(name, options_.directory));
    }
    const std::unique_lock lock(mutex_);
    has_looked_ = true;
    models_.merge(fresh);
    std::erase_if(models_, [&](const auto& entry) {
      if (!there.contains(entry.first)) gone.push_back(entry.second);
      return !there.contains(entry.first);
    });
  }
  for (const auto& model : gone) forget(model);
}

bool Repository::knows(const std::string& model) const {
  const std::shared_lock lock(mutex_);
  return models_.contains(model);
}

// Its versions live until their last request is answered.
void Repository::forget(const std::shared_ptr<ServedModel>& model) {
  log::info("model {}: its folder is gone, and it is no longer served", model->name());
  auto versions = model->take_versions();
  const std::lock_guard lock(retired_mutex_);
  std::ranges::move(versions, std::back_inserter(retired_));
}

// What is wrong with one model's folder is none of the others' business.
void Repository::update(ServedModel& model, bool at_once) {
  try {
    auto dropped = model.update(at_once);
    const std::lock_guard lock(retired_mutex_);
    std::ranges::move(dropped, std::back_inserter(retired_));
  } catch (const std::exception& error) {
    model.report(error.what());
  }
}

// A version is destroyed here and not where its last request ended, which would hold that thread
// up.
void Repository::free_unused() {
  std::vector<std::shared_ptr<Version>> unused;
  {
    const std::lock_guard lock(retired_mutex_);
    const auto in_use = std::ranges::partition(
        retired_, [](const auto& version) { return version.use_count() > 1; });
    unused.assign(std::make_move_iterator(in_use.begin()), std::make_move_iterator(in_use.end()));
    retired_.erase(in_use.begin(), in_use.end());
  }
  if (unused.empty()) return;
  unused.clear();  // which takes a while
  // Weights are freed in pieces that the C library would keep.
  ::malloc_trim(0);
}

void Repository::check_stop() const {
  if (stopping_) throw Error("the server ends");
}

void Repository::watch() {
  const Interruptible until_the_end([this] { check_stop(); });
  std::unique_lock lock(watch_mutex_);
  while (!stop_.wait_for(lock, options_.poll, [&] { return stopping_.load(); })) {
    lock.unlock();
    try {
      find_models();
    } catch (const std::exception& error) {
      log::warning("{}: cannot be looked at: {}", options_.directory.string(), error.what());
    }
    for (const auto& model : models()) update(*model);
    free_unused();
    if (on_look_) on_look_();
    lock.lock();
  }
}

bool Repository::ready() const {
  if (!started_) return false;
  const auto all = models();
  return all.empty() ||
         std::ranges::any_of(all, [](const auto& model) { return model->answers(); });
}

std::shared_ptr<ServedModel> Repository::find(const std::string& model) const {
  const std::shared_lock lock(mutex_);
  const auto found = models_.find(model);
  if (found == models_.end() && !has_looked_)
    throw RequestError(Refusal::unavailable, "the server has not found its models yet");
  if (found == models_.end())
    throw RequestError(Refusal::not_found, fmt::format("there is no model '{}'", model));
  return found->second;
}

std::shared_ptr<Version> Repository::choose(const std::string& model,
                                            const std::string& version) const {
  return find_version(model, version, ServedModel::Turn::taken);
}

std::shared_ptr<Version> Repository::look_up(const std::string& model,
                                             const std::string& version) const {
  return find_version(model, version, ServedModel::Turn::left);
}

std::shared_ptr<Version> Repository::find_version(const std::string& model,
                                                  const std::string& version,
                                                  ServedModel::Turn turn) const {
  const auto served = find(model);
  if (version.empty()) return served->choose(std::nullopt, turn);
  const auto number = number_in<std::int64_t>(version).value_or(0);
  if (number < 1)
    throw RequestError(Refusal::not_found,
                       fmt::format("version '{}': expected a number from 1", version));
  return served->choose(number, turn);
}

ModelStatus Repository::status(const std::string& model) const { return find(model)->status(); }

std::vector<std::shared_ptr<ServedModel>> Repository::models() const {
  const std::shared_lock lock(mutex_);
  std::vector<std::shared_ptr<ServedModel>> models;
  for (const auto& entry : models_) models.push_back(entry.second);
  return models;
}

std::vector<ModelStatus> Repository::index() const {
  std::vector<ModelStatus> statuses;
  for (const auto& model : models()) statuses.push_back(model->status());
  return statuses;
}

ModelStatus Repository::roll_back(const std::string& model) {
  const auto served = find(model);
  served->roll_back();
  update(*served, /*at_once=*/true);
  return served->status();
}

ModelStatus Repository::set_canary(const std::string& model, std::int64_t version, int percent) {
  const auto served = find(model);
  served->set_canary(version, percent);
  update(*served, /*at_once=*/true);
  return served->status();
}

ModelStatus Repository::reload(const std::string& model) {
  {
    const Interruptible until_the_end([this] { check_stop(); });
    find_models();
  }
  const auto served = find(model);
  served->forget_refusals();
  update(*served, /*at_once=*/true);
  ModelStatus status = served->status();
  const auto newest = std::ranges::max_element(status.versions, {}, &VersionStatus::number);
  if (newest != status.versions.end() && newest->state == VersionState::refused)
    throw RequestError(Refusal::conflict, fmt::format("model '{}': version {} is refused: {}",
                                                      model, newest->number, newest->reason));
  if (status.serving == 0 && !status.problem.empty())
    throw RequestError(Refusal::conflict, fmt::format("model '{}': {}", model, status.problem));
  return status;
}

}  // namespace sullae::serve
