#include "cluster/job_folder.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/deadline.h"
#include "base/file.h"
#include "base/file_lock.h"
#include "base/json_message.h"
#include "base/log.h"
#include "base/number.h"
#include "base/system_error.h"
#include "sullae/error.h"

namespace sullae::cluster {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::size_t kMostBytes = std::size_t{1} << 20;
constexpr std::chrono::seconds kLockLimit{60};
// Has the number of the newest job, which may have been removed.
constexpr const char* kLast = ".last";
// Of an attempt that runs: what its end takes, where logs and checkpoints have filled the storage
// meanwhile.
constexpr const char* kRoom = "room";
constexpr std::size_t kRoomBytes = std::size_t{64} << 10;

constexpr std::array<std::pair<End, const char*>, 7> kEnds = {{
    {End::completed, "completed"},
    {End::failed, "failed"},
    {End::cancelled, "cancelled"},
    {End::preempted, "preempted"},
    {End::timed_out, "timed out"},
    {End::node_lost, "node lost"},
    {End::past_deadline, "past its deadline"},
}};

std::optional<Json> read_json(const fs::path& file) {
  if (!fs::exists(file)) return std::nullopt;
  try {
    return Json::parse(read_file(file, kMostBytes));
  } catch (const Json::exception& error) {
    throw InputError(fmt::format("{}: {}", file.string(), json_message(error)));
  }
}

Json to_json(const Result& result) {
  return {{"state", to_text(result.end)}, {"exit_code", result.exit_code},
          {"reason", result.reason},      {"submission", result.submission},
          {"attempts", result.attempts},  {"started", result.started},
          {"ended", result.ended}};
}

std::optional<Result> read_result(const fs::path& file) {
  const auto json = read_json(file);
  if (!json) return std::nullopt;
  try {
    Result result;
    const auto state = json->at("state").get<std::string>();
    const auto* const end =
        std::ranges::find(kEnds, state, [](const auto& one) { return std::string(one.second); });
    if (end == kEnds.end())
      throw InputError(fmt::format("{}: state '{}' is none", file.string(), state));
    result.end = end->first;
    json->at("exit_code").get_to(result.exit_code);
    json->at("reason").get_to(result.reason);
    json->at("submission").get_to(result.submission);
    json->at("attempts").get_to(result.attempts);
    json->at("started").get_to(result.started);
    json->at("ended").get_to(result.ended);
    return result;
  } catch (const Json::exception& error) {
    throw InputError(fmt::format("{}: {}", file.string(), json_message(error)));
  }
}

// The number of "mnist-7"; 0 for what is no job.
std::int64_t number_of(const std::string& id) {
  const auto dash = id.rfind('-');
  if (dash == std::string::npos || id.front() == '.') return 0;
  return number_in<std::int64_t>(std::string_view(id).substr(dash + 1)).value_or(0);
}

UniqueFd lock_own(const fs::path& file) {
  const Deadline deadline(kLockLimit, "the limit for others to end");
  auto fd = lock_file(file, 0600, deadline);
  if (!fd) {
    throw TimeoutError(
        fmt::format("{}: somebody else did not end {}", file.string(), deadline.describe()));
  }
  return fd;
}

}  // namespace

std::string to_text(End end) {
  return std::ranges::find(kEnds, end, &std::pair<End, const char*>::first)->second;
}

Job JobFolder::job() const { return read_job(path_ / "job.toml"); }

SubmissionRecord JobFolder::submission() const {
  const auto json = read_json(path_ / "submission.json");
  if (!json) return {};
  return {.number = json->value("number", 0),
          .time = json->value("time", std::int64_t{0}),
          .first_attempt = json->value("first_attempt", 1),
          .engine_name = json->value("engine_name", std::string())};
}

void JobFolder::set_submission(const SubmissionRecord& record) const {
  write_file(path_ / "submission.json", Json{{"number", record.number},
                                             {"time", record.time},
                                             {"first_attempt", record.first_attempt},
                                             {"engine_name", record.engine_name}}
                                            .dump());
}

Size JobFolder::size(const Job& job) const {
  const auto json = read_json(path_ / "size.json");
  if (!json) return {.min_nodes = job.min_nodes, .max_nodes = job.max_nodes};
  return {.min_nodes = json->value("min_nodes", job.min_nodes),
          .max_nodes = json->value("max_nodes", job.max_nodes)};
}

void JobFolder::set_size(const Size& size) const {
  write_file(path_ / "size.json",
             Json{{"min_nodes", size.min_nodes}, {"max_nodes", size.max_nodes}}.dump());
}

bool JobFolder::is_cancelled() const { return fs::exists(path_ / "cancelled"); }

void JobFolder::set_cancelled(bool cancelled) const {
  if (cancelled) {
    write_file(path_ / "cancelled", "");
  } else {
    fs::remove(path_ / "cancelled");
  }
}

int JobFolder::attempts() const {
  std::error_code error;
  int highest = 0;
  for (const auto& entry :
       entries_of(path_ / "attempts", error).value_or(std::vector<fs::path>{})) {
    highest = std::max(highest, number_in<int>(entry.filename().string()).value_or(0));
  }
  return highest;
}

int JobFolder::begin_attempt() const {
  fs::create_directories(path_ / "attempts");
  for (int number = attempts() + 1;; ++number) {
    if (!fs::create_directory(attempt(number))) continue;
    write_file(attempt(number) / kRoom, std::string(kRoomBytes, '\0'));
    return number;
  }
}

void JobFolder::end_attempt(int number, const Result& result) const {
  std::error_code gone;
  fs::remove(attempt(number) / kRoom, gone);
  write_file(attempt(number) / "ended.json", to_json(result).dump(2) + "\n");
}

std::optional<Result> JobFolder::attempt_result(int number) const {
  return read_result(attempt(number) / "ended.json");
}

std::optional<Result> JobFolder::result(int submission) const {
  auto result = read_result(path_ / "result.json");
  if (result && result->submission != submission) result.reset();
  return result;
}

void JobFolder::set_result(const Result& result) const {
  write_file(path_ / "result.json", to_json(result).dump(2) + "\n");
}

UniqueFd JobFolder::lock() const { return lock_own(path_ / "lock"); }

std::int64_t JobFolders::last_number() const {
  std::error_code error;
  if (!fs::exists(root_ / kLast, error)) return 0;
  return number_in<std::int64_t>(read_file(root_ / kLast, kMostBytes)).value_or(0);
}

JobFolders::Made JobFolders::make(const Job& job) const {
  std::error_code error;
  fs::create_directories(root_, error);
  if (error) {
    throw Error(
        fmt::format("{}, where jobs are kept, cannot be made: {}: cluster.toml's jobs, or "
                    "SULLAE_JOBS, names a folder that all nodes have",
                    root_.string(), error.message()));
  }
  const UniqueFd lock = lock_own(root_ / ".lock");
  std::int64_t last = last_number();
  for (const JobFolder& folder : all()) {
    last = std::max(last, number_of(folder.id()));
    if (job.idempotency_key.empty()) continue;
    Job known;
    // What is left of one that was removed has no key; of one that cannot be read it is not known.
    const auto file = folder.path() / "job.toml";
    if (::access(file.c_str(), R_OK) != 0) {
      if (errno == ENOENT || errno == ENOTDIR) continue;
      throw system_error("{}", file.string());
    }
    try {
      known = folder.job();
    } catch (const InputError& damaged) {
      log::warning("{}", damaged.what());
      continue;
    }
    if (known.idempotency_key != job.idempotency_key) continue;
    if (known != job) {
      throw InputError(fmt::format("--idempotency-key {}: job {} has this key, and is another one",
                                   job.idempotency_key, folder.id()));
    }
    return {.folder = folder, .is_new = false};
  }
  // No number is given twice: what of a job goes on whose folder was removed would go on in
  // another's.
  write_file(root_ / kLast, fmt::to_string(++last));
  const auto id = fmt::format("{}-{}", job.name, last);
  const auto temporary = root_ / ("." + id + ".tmp");  // of somebody who was killed, perhaps
  fs::remove_all(temporary);
  if (::mkdir(temporary.c_str(), 0700) != 0)
    throw system_error("{} cannot be made", temporary.string());
  try {
    write_file(temporary / "job.toml", to_toml(job));
  } catch (const std::exception&) {
    fs::remove_all(temporary);
    throw;
  }
  fs::rename(temporary, root_ / id);
  sync_directory(root_);
  return {.folder = JobFolder(root_ / id)};
}

JobFolder JobFolders::find(const std::string& id) const {
  std::vector<std::string> known;
  for (const JobFolder& folder : all()) {
    if (folder.id() == id || fmt::to_string(number_of(folder.id())) == id) return folder;
    known.push_back(folder.id());
  }
  throw InputError(fmt::format("there is no job '{}' in {} (sullae jobs list){}", id,
                               root_.string(),
                               known.empty() ? "" : ": the last one is " + known.back()));
}

std::vector<JobFolder> JobFolders::all() const {
  std::error_code error;
  std::vector<JobFolder> folders;
  const auto entries = entries_of(root_, error);
  if (!entries && error != std::errc::no_such_file_or_directory)
    throw Error(fmt::format("{}, where jobs are kept, cannot be read: {}", root_.string(),
                            error.message()));
  for (const auto& entry : entries.value_or(std::vector<fs::path>{})) {
    if (number_of(entry.filename().string()) > 0) folders.emplace_back(entry);
  }
  std::ranges::sort(folders, {}, [](const JobFolder& folder) { return number_of(folder.id()); });
  return folders;
}

}  // namespace sullae::cluster
