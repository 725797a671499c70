#include "serve/repository/repository.h"

#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <charconv>

#include "base/log.h"
#include "serve/request_error.h"

namespace sullae::serve {
namespace {

namespace fs = std::filesystem;

// What a model may be called: what is safe in a path, and in a metric's label.
bool is_model_name(const std::string& name) {
  return !name.empty() && name.front() != '.' &&
         name.find_first_of("/\\:\"\n") == std::string::npos;
}

}  // namespace

Repository::Repository(const RepositoryOptions& options) : options_(options) {
  std::error_code error;
  if (!fs::is_directory(options_.directory, error))
    throw InputError(
        fmt::format("{}: is no folder; expected a model repository: "
                    "DIR/<model>/<version>/model.ckpt or model.pt",
                    options_.directory.string()));
}

Repository::~Repository() {
  {
    const std::lock_guard lock(watch_mutex_);
    stopping_ = true;
  }
  stop_.notify_all();
  if (watcher_.joinable()) watcher_.join();
}

void Repository::start() {
  find_models();
  for (const auto& model : models()) update(*model);
  started_ = true;
  watcher_ = std::thread([this] { watch(); });
}

void Repository::find_models() {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(options_.directory, error)) {
    const auto name = entry.path().filename().string();
    if (!entry.is_directory(error) || !is_model_name(name)) continue;
    const std::unique_lock lock(mutex_);
    if (!models_.contains(name))
      models_.emplace(name, std::make_shared<ServedModel>(name, entry.path()));
  }
}

void Repository::update(ServedModel& model, bool at_once) {
  const std::lock_guard lock(update_mutex_);
  for (auto& version : model.update(at_once)) retired_.push_back(std::move(version));
}

// A version is destroyed here and not where its last request ended, which would hold that thread up.
void Repository::free_unused() {
  const std::lock_guard lock(update_mutex_);
  const auto before = retired_.size();
  std::erase_if(retired_, [](const auto& version) { return version.use_count() == 1; });
  // Weights are freed in pieces that the C library would keep.
  if (retired_.size() < before) ::malloc_trim(0);
}

void Repository::watch() {
  std::unique_lock lock(watch_mutex_);
  while (!stop_.wait_for(lock, options_.poll, [&] { return stopping_; })) {
    lock.unlock();
    find_models();
    for (const auto& model : models()) update(*model);
    free_unused();
    lock.lock();
  }
}

bool Repository::ready() const {
  return started_ &&
         std::ranges::all_of(models(), [](const auto& model) { return model->answers(); });
}

std::shared_ptr<ServedModel> Repository::find(const std::string& model) const {
  const std::shared_lock lock(mutex_);
  const auto found = models_.find(model);
  if (found == models_.end())
    throw RequestError(Refusal::not_found, fmt::format("there is no model '{}'", model));
  return found->second;
}

std::shared_ptr<Version> Repository::choose(const std::string& model,
                                            const std::string& version) const {
  const auto served = find(model);
  if (version.empty()) return served->choose(std::nullopt);
  std::int64_t number = 0;
  const char* const end = version.data() + version.size();
  const auto [stop, error] = std::from_chars(version.data(), end, number);
  if (error != std::errc{} || stop != end || number < 1)
    throw RequestError(Refusal::not_found,
                       fmt::format("version '{}': expected a number from 1", version));
  return served->choose(number);
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
  find_models();
  const auto served = find(model);
  served->forget_refusals();
  update(*served, /*at_once=*/true);
  return served->status();
}

}  // namespace sullae::serve
