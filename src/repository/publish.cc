#include "repository/publish.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <limits>
#include <vector>

#include "base/failpoint.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/host.h"
#include "base/log.h"
#include "base/number.h"
#include "base/processes.h"
#include "base/system_error.h"
#include "repository/making.h"
#include "repository/serving_state.h"
#include "storage/storage.h"
#include "sullae/error.h"

namespace sullae::repository {
namespace {

namespace fs = std::filesystem;

std::int64_t largest_version(const fs::path& model) {
  std::int64_t largest = 0;
  for (const auto& entry : storage::list(model))
    largest = std::max(largest, version_number(entry.name));
  return largest;
}

void put_config(const fs::path& model, const std::string& config) {
  if (!storage::exists(model / kModelConfig)) storage::write_file(model / kModelConfig, config);
}

std::string making_prefix() { return fmt::format(".making-{:016x}-", fnv1a(host_identity())); }

// Of this host, for what goes to a store.
class TemporaryFolder {
 public:
  TemporaryFolder() : path_((fs::temp_directory_path() / "sullae-publish-XXXXXX").string()) {
    if (::mkdtemp(path_.data()) == nullptr) throw system_error("{}", path_);
  }
  ~TemporaryFolder() {
    std::error_code error;
    fs::remove_all(path_, error);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  fs::path path() const { return path_; }

 private:
  std::string path_;
};

// Of a version that could not be sent.
void remove_parts(const fs::path& version) {
  try {
    storage::remove(version);
  } catch (const Error& error) {
    log::warning("{}: a part of it may be left: {}", version.string(), error.what());
  }
}

// Stores rename no folders: a version is there when its model's file is, which is sent last.
fs::path publish_to_store(const fs::path& model, const std::string& config,
                          const std::function<void(const fs::path&)>& write) {
  const TemporaryFolder making;
  write(making.path());
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(making.path())) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::stable_partition(files.begin(), files.end(), [](const fs::path& file) {
    return std::ranges::find(kModelFiles, file.filename().string()) == kModelFiles.end();
  });
  put_config(model, config);
  fs::path version = model / std::to_string(largest_version(model) + 1);
  try {
    for (const auto& file : files)
      storage::upload(file, version / fs::relative(file, making.path()));
  } catch (const Error&) {
    remove_parts(version);
    throw;
  }
  return version;
}

// What was rolled back, and removed, gives its number to nothing else: servers would not serve it.
std::int64_t next_version(const fs::path& model) {
  const ServingState state = read_serving_state(model);
  std::int64_t largest = std::max(largest_version(model), state.serving);
  if (!state.withdrawn.empty()) largest = std::max(largest, *state.withdrawn.rbegin());
  return largest + 1;
}

}  // namespace

fs::path making_in(const fs::path& model) {
  static std::atomic<std::uint64_t> made = 0;  // threads publish at the same time
  return model / fmt::format("{}{}-{}", making_prefix(), ::getpid(), made++);
}

void remove_abandoned(const fs::path& model) {
  const auto prefix = making_prefix();
  for (const auto& entry : fs::directory_iterator(model)) {
    const auto name = entry.path().filename().string();
    if (!name.starts_with(prefix)) continue;
    const auto pid =
        version_number(name.substr(prefix.size(), name.find('-', prefix.size()) - prefix.size()));
    std::error_code error;
    if (pid > 0 && !is_running(static_cast<pid_t>(pid))) fs::remove_all(entry.path(), error);
  }
}

std::int64_t version_number(const std::string& name) {
  const auto number = number_in<std::int64_t>(name).value_or(0);
  const bool has_a_next = number < std::numeric_limits<std::int64_t>::max();
  return number > 0 && has_a_next && name.front() != '0' ? number : 0;
}

bool is_model_name(const std::string& name) {
  return !name.empty() && name.front() != '.' &&
         name.find_first_of("/\\:\"\n") == std::string::npos;
}

void check_model_name(const std::string& name) {
  if (!is_model_name(name))
    throw InputError(fmt::format("'{}' cannot be the name of a model: {}", name, kModelNames));
}

fs::path publish_version(const fs::path& repository, const std::string& name,
                         const std::string& config,
                         const std::function<void(const fs::path&)>& write) {
  check_model_name(name);
  const fs::path model = repository / name;
  if (storage::is_remote(repository)) return publish_to_store(model, config, write);
  std::error_code error;
  fs::create_directories(model, error);
  if (error) throw Error(fmt::format("{}: {}", model.string(), error.message()));
  put_config(model, config);
  // The version gets its name when all of it is on the disk. Names that start with a dot are no
  // versions.
  remove_abandoned(model);
  const fs::path making = making_in(model);
  fs::remove_all(making);
  fs::create_directory(making);
  failpoint("publish.begun");
  try {
    write(making);
    failpoint("publish.written");
    for (;;) {
      fs::path version = model / std::to_string(next_version(model));
      fs::rename(making, version, error);
      if (!error) {
        failpoint("publish.renamed");
        // The version is there after a power failure too, and so is its model.
        sync_directory(model);
        sync_directory(repository);
        return version;
      }
      // Another process took the number.
      if (!fs::exists(version))
        throw Error(fmt::format("{}: {}", version.string(), error.message()));
    }
  } catch (const Error&) {
    fs::remove_all(making, error);
    throw;
  }
}

void remove_version(const fs::path& model, std::int64_t number) {
  const fs::path version = model / std::to_string(number);
  const fs::path removing = making_in(model);
  std::error_code error;
  fs::rename(version, removing, error);
  if (!error) fs::remove_all(removing, error);
  if (error) log::warning("{}: cannot be removed: {}", version.string(), error.message());
}

}  // namespace sullae::repository
