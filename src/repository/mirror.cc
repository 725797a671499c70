#include "repository/mirror.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/deadline.h"
#include "base/dump_json.h"
#include "base/environment.h"
#include "base/file.h"
#include "base/file_lock.h"
#include "base/interruption.h"
#include "base/log.h"
#include "repository/making.h"
#include "repository/publish.h"
#include "repository/remote_model.h"
#include "storage/storage.h"

namespace sullae::repository {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kRecord = ".copy.json";
constexpr const char* kLock = ".copy.lock";
constexpr const char* kTimeout = "SULLAE_MODEL_COPY_TIMEOUT";
constexpr std::size_t kMostBytes = std::size_t{64} << 20;

// What begins with a dot is a server's note, a system's, or a file that is being written.
bool is_hidden(const std::string& name) { return name.empty() || name.front() == '.'; }

// What operators correct, which is theirs where they did.
bool is_samples(const std::string& name) { return name.starts_with("examples.db"); }

std::string prefix_of(const std::string& model) { return model + '/'; }
std::string prefix_of(const std::string& model, std::int64_t number) {
  return fmt::format("{}/{}/", model, number);
}

}  // namespace

Mirror::Mirror(fs::path remote, fs::path local)
    : remote_(storage::without_slash(remote)), local_(std::move(local)) {
  storage::make_folder(local_);
}

bool Mirror::has_copy() const { return fs::exists(local_ / kRecord); }

std::vector<storage::Entry> Mirror::look() const {
  const auto there = storage::status(remote_);
  if (!there || !there->is_folder)
    throw NoRepository(
        fmt::format("{}: is no folder; expected a model repository: <model>/<version>/{}",
                    remote_.string(), kModelFileNames));
  auto entries = storage::list(remote_);
  for (const auto number : versions_in(entries)) {
    if (holds_model(remote_ / std::to_string(number)))
      throw NoRepository(
          fmt::format("{}: is a model; expected the folder that has it, a model repository: {}",
                      remote_.string(), remote_.parent_path().string()));
  }
  return entries;
}

void Mirror::update(const Wanted& wanted) {
  with_record([&] {
    std::set<std::string> gone;
    for (const auto& [file, version] : copied_) gone.insert(file.substr(0, file.find('/')));
    std::exception_ptr problem;
    for (const auto& entry : look()) {
      if (!entry.status.is_folder || is_hidden(entry.name)) continue;
      gone.erase(entry.name);
      // What is wrong with one is none of the others' business.
      try {
        const auto keep = copy_model(entry.name, wanted);
        for (const auto number : copied_versions(entry.name)) {
          if (!keep.contains(number)) drop_version(entry.name, number);
        }
      } catch (const Error&) {
        check_interruption();
        if (!problem) problem = std::current_exception();
      }
    }
    for (const auto& model : gone) drop_model(model);
    if (problem) std::rethrow_exception(problem);
  });
}

void Mirror::add(const std::string& model, std::int64_t number) {
  with_record(
      [&] { copy_model(model, [&](const auto&, const auto&) { return std::set{number}; }); });
}

// One process at a time, which knows what others have copied.
template <class Work>
void Mirror::with_record(const Work& work) {
  std::chrono::milliseconds limit{std::chrono::hours{1}};
  read_seconds(process_environment(), kTimeout, ZeroMeans::error, limit);
  constexpr mode_t kMode = 0666;
  const Deadline deadline(limit, kTimeout);
  const auto lock = lock_file(local_ / kLock, kMode, deadline);
  if (!lock)
    throw TimeoutError(fmt::format("{}: another process has not copied what it copies there {}",
                                   local_.string(), deadline.describe()));
  read_record();
  try {
    work();
  } catch (const std::exception&) {
    write_record();
    throw;
  }
  write_record();
  is_adopting_ = false;
}

void Mirror::read_record() {
  copied_.clear();
  written_.clear();
  const fs::path file = local_ / kRecord;
  if (!fs::exists(file)) return;
  const auto saved = json::parse(read_file(file, kMostBytes), nullptr, false);
  std::string of;
  try {
    of = saved.at("of");
    copied_ = saved.at("files").get<std::map<std::string, std::string>>();
  } catch (const json::exception& error) {
    log::warning("{}: is damaged, and all is copied again: {}", file.string(), error.what());
    is_adopting_ = true;
    return;
  }
  if (of != remote_.string())
    throw NoRepository(fmt::format("{}: is the copy of {}: expected another folder for that of {}",
                                   local_.string(), of, remote_.string()));
  written_ = copied_;
}

void Mirror::write_record() {
  // Not each time that it is looked, and not where nothing could be copied.
  if (copied_ == written_ && !is_adopting_) return;
  write_file(local_ / kRecord,
             dump_json(json{{"of", remote_.string()}, {"files", copied_}}, 2) + '\n');
  written_ = copied_;
}

// What is wanted of it, and is there.
std::set<std::int64_t> Mirror::copy_model(const std::string& model, const Wanted& wanted) {
  const auto entries = storage::list(remote_ / model);
  auto there = versions_in(entries);
  // Other folders are none of ours.
  if (there.empty() &&
      std::ranges::find(entries, kModelConfig, &storage::Entry::name) == entries.end())
    return {};
  storage::make_folder(local_ / model);
  remove_abandoned(local_ / model);
  copy_beside(model, entries);
  for (;;) {
    auto keep = wanted(local_ / model, there);
    std::erase_if(keep, [&](std::int64_t number) { return !there.contains(number); });
    const auto missing = std::find_if(keep.rbegin(), keep.rend(), [&](std::int64_t number) {
      return !copy_version(model, number);
    });
    if (missing == keep.rend()) return keep;
    there.erase(*missing);
  }
}

void Mirror::copy_beside(const std::string& model, const std::vector<storage::Entry>& entries) {
  auto gone = copied_beside(model);
  for (const auto& entry : entries) {
    if (entry.status.is_folder || is_hidden(entry.name) || is_samples(entry.name)) continue;
    copy_file(prefix_of(model) + entry.name, entry.status);
    gone.erase(prefix_of(model) + entry.name);
  }
  for (const auto& file : gone) drop(file);
}

// False where it has no model, which is sent last.
bool Mirror::copy_version(const std::string& model, std::int64_t number) {
  const fs::path from = remote_ / model / std::to_string(number);
  const fs::path to = local_ / model / std::to_string(number);
  const auto prefix = prefix_of(model, number);
  Listing files;
  storage::for_each_file(from, [&](const fs::path& file, const storage::Status& status) {
    const auto name = file.string().substr(from.string().size());
    if (name.find("/.") == name.npos) files[prefix + name.substr(1)] = status;
  });
  if (std::ranges::none_of(kModelFiles, [&](auto* name) { return files.contains(prefix + name); }))
    return false;
  if (!fs::exists(to)) {
    put_together(model, number, files);
  } else if (is_adopting_ || copied_versions(model).contains(number)) {
    for (const auto& [file, status] : files) copy_file(file, status);
  } else if (left_.insert(prefix).second) {
    log::warning("{}: was made here, and stays as it is: {} is not copied", to.string(),
                 from.string());
  }
  return true;
}

void Mirror::put_together(const std::string& model, std::int64_t number, const Listing& files) {
  const auto begun = std::chrono::steady_clock::now();
  const fs::path making = making_in(local_ / model);
  const auto prefix = prefix_of(model, number);
  fs::remove_all(making);
  std::uint64_t bytes = 0;
  try {
    for (const auto& [file, status] : files) {
      const fs::path here = making / file.substr(prefix.size());
      storage::make_folder(here.parent_path());
      storage::download(remote_ / file, status, here);
      bytes += status.bytes;
    }
  } catch (const Error&) {
    std::error_code error;
    fs::remove_all(making, error);
    throw;
  }
  // First, so that whoever finds the version knows that it was copied.
  for (const auto& [file, status] : files) copied_[file] = status.version;
  write_record();
  fs::rename(making, local_ / model / std::to_string(number));
  sync_directory(local_ / model);
  log::info("model {}: version {} was copied from {} ({:.1f} MB, {:.1f} s)", model, number,
            remote_.string(), static_cast<double>(bytes) / 1e6,
            std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count());
}

void Mirror::copy_file(const std::string& file, const storage::Status& status) {
  const auto copied = copied_.find(file);
  if (copied != copied_.end() && copied->second == status.version && fs::exists(local_ / file))
    return;
  if (!is_adopting_ && copied == copied_.end() && fs::exists(local_ / file)) {
    if (left_.insert(file).second)
      log::warning("{}: was made here, and stays as it is", (local_ / file).string());
    return;
  }
  storage::make_folder((local_ / file).parent_path());
  storage::download(remote_ / file, status, local_ / file);
  copied_[file] = status.version;
}

void Mirror::drop(const std::string& file) {
  copied_.erase(file);
  storage::remove(local_ / file);
}

void Mirror::drop_version(const std::string& model, std::int64_t number) {
  const fs::path version = local_ / model / std::to_string(number);
  if (fs::exists(version)) remove_version(local_ / model, number);
  if (fs::exists(version)) return;  // of which was told, and which is tried again
  const auto prefix = prefix_of(model, number);
  std::erase_if(copied_, [&](const auto& entry) { return entry.first.starts_with(prefix); });
}

// What others have put beside it stays.
void Mirror::drop_model(const std::string& model) {
  for (const auto& file : copied_beside(model)) drop(file);
  for (const auto number : copied_versions(model)) drop_version(model, number);
}

std::set<std::string> Mirror::copied_beside(const std::string& model) const {
  std::set<std::string> files;
  for (const auto& [file, version] : copied_) {
    if (file.starts_with(prefix_of(model)) && file.find('/', model.size() + 1) == file.npos)
      files.insert(file);
  }
  return files;
}

std::set<std::int64_t> Mirror::copied_versions(const std::string& model) const {
  std::set<std::int64_t> numbers;
  for (const auto& [file, version] : copied_) {
    if (!file.starts_with(prefix_of(model))) continue;
    const auto rest = file.substr(model.size() + 1);
    if (const auto slash = rest.find('/'); slash != rest.npos)
      numbers.insert(version_number(rest.substr(0, slash)));
  }
  return numbers;
}

}  // namespace sullae::repository
