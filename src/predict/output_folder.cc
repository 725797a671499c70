#include "predict/output_folder.h"

#include <fmt/format.h>

#include <optional>
#include <regex>
#include <set>

#include "base/file_lock.h"
#include "base/number.h"
#include "data/record/tfrecord_frame.h"
#include "predict/description.h"
#include "storage/storage.h"
#include "sullae/error.h"

namespace sullae::predict {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kRun = "_predict.json";
constexpr const char* kNotes = "_parts";
constexpr const char* kSuccess = "_SUCCESS";
constexpr std::size_t kMostBytes = std::size_t{64} << 20;

std::set<std::string> names_in(const fs::path& folder) {
  std::set<std::string> names;
  if (!storage::exists(folder)) return names;
  for (const auto& entry : storage::list(folder)) names.insert(entry.name);
  return names;
}

// Also the index that reading TFRecord files leaves beside them.
bool is_part(const std::string& name) {
  static const std::regex pattern(R"(part-\d{5,}\.(jsonl|csv|tfrecord|parquet)(\.idx)?)");
  return std::regex_match(name, pattern);
}
bool is_temporary(const std::string& name) { return name.find(".tmp-") != std::string::npos; }
bool is_ours(const std::string& name) {
  auto whole = name.substr(0, name.find(".tmp-"));
  if (is_temporary(name) && whole.starts_with('.')) whole.erase(0, 1);  // WebHDFS's
  return whole == kRun || whole == kNotes || whole == kSuccess || whole == "_report.json" ||
         whole == "_report.html" || is_part(whole);
}
// What systems put into folders.
bool is_nobodys(const std::string& name) { return name.starts_with('.') || name == "lost+found"; }

}  // namespace

OutputFolder::OutputFolder(fs::path folder, std::string format, std::size_t parts)
    : folder_(std::move(folder)), format_(std::move(format)), parts_(parts) {}

fs::path OutputFolder::part(std::size_t number) const {
  return folder_ / fmt::format("part-{:05}.{}", number, format_);
}
fs::path OutputFolder::note_file(std::size_t number) const {
  return folder_ / kNotes / fmt::format("part-{:05}.json", number);
}
fs::path OutputFolder::report(const std::string& extension) const {
  return folder_ / ("_report." + extension);
}

std::vector<std::size_t> OutputFolder::open(const json& run, bool overwrite) {
  const auto refuse = [&](const std::string& why) {
    throw InputError(fmt::format("--output {}: {}", folder_.string(), why));
  };
  try {
    storage::make_folder(folder_);
  } catch (const InputError& error) {
    throw InputError(fmt::format("--output {}", error.what()));
  }
  // Stores have no locks, nor have all file systems that hosts share.
  if (!storage::is_remote(folder_)) {
    lock_ = try_lock_folder(folder_);
    if (!lock_) refuse("another `sullae predict` is writing there");
  }

  bool has_parts = false;
  std::string other_part;
  const auto names = names_in(folder_);
  for (const auto& name : names) {
    if (!is_ours(name) && !is_nobodys(name))
      refuse(fmt::format("holds '{}', which is no prediction: expected a folder without it", name));
    has_parts = has_parts || is_part(name);
    if (is_part(name) && !is_of_this_run(name)) other_part = name;
  }
  const json before = description();
  if (before != run) {
    if (has_parts && !overwrite)
      refuse(fmt::format(
          "holds predictions of another run ({}): expected another folder, or "
          "--overwrite",
          before.is_null() ? "_predict.json is missing or damaged" : difference(run, before)));
    remove_all();
  } else if (!other_part.empty()) {
    refuse(fmt::format("holds '{}', which is none of this run's {} parts", other_part, parts_));
  }
  storage::make_folder(folder_ / kNotes);
  remove_temporaries();
  if (before != run) storage::write_file(folder_ / kRun, run.dump(2) + '\n');
  auto numbers = missing();
  if (!numbers.empty()) storage::remove(folder_ / kSuccess);
  return numbers;
}

// Null where there is none that can be read.
json OutputFolder::description() const {
  if (!storage::exists(folder_ / kRun)) return nullptr;
  try {
    return json::parse(storage::read_file(folder_ / kRun, kMostBytes));
  } catch (const json::exception&) {
    return nullptr;
  }
}

bool OutputFolder::is_of_this_run(const std::string& name) const {
  const std::string whole = name.ends_with(".idx") ? name.substr(0, name.size() - 4) : name;
  const std::string digits = whole.substr(5, whole.find('.') - 5);
  const auto number = number_in<std::size_t>(digits);
  return number && *number < parts_ && part(*number).filename() == whole;
}

// At the end what says whose it is, so that a removal that is cut off can be gone on with.
void OutputFolder::remove_all() const {
  storage::remove(folder_ / kSuccess);
  for (const auto& name : names_in(folder_)) {
    if (is_ours(name) && name != kRun) storage::remove(folder_ / name);
  }
  storage::remove(folder_ / kRun);
}

void OutputFolder::remove_temporaries() const {
  for (const auto& name : names_in(folder_)) {
    if (is_ours(name) && is_temporary(name)) storage::remove(folder_ / name);
  }
  for (const auto& name : names_in(folder_ / kNotes)) {
    if (is_temporary(name)) storage::remove(folder_ / kNotes / name);
  }
}

std::vector<std::size_t> OutputFolder::missing() const {
  const auto names = names_in(folder_);
  const auto notes = names_in(folder_ / kNotes);
  // Its writer may have been killed between a part and the index of it.
  const bool is_indexed = format_ == "tfrecord" && !storage::is_remote(folder_);
  const auto is_there = [&](std::size_t number) {
    const fs::path name = part(number).filename();
    return names.contains(name) && (!is_indexed || names.contains(data::tfrecord_index_of(name))) &&
           notes.contains(note_file(number).filename()) && noted(number);
  };
  std::vector<std::size_t> missing;
  for (std::size_t number = 0; number < parts_; ++number) {
    if (!is_there(number)) missing.push_back(number);
  }
  return missing;
}

void OutputFolder::note(std::size_t number, const json& seen) const {
  storage::write_file(note_file(number), seen.dump() + '\n');
}

std::optional<json> OutputFolder::noted(std::size_t number) const {
  try {
    return json::parse(storage::read_file(note_file(number), kMostBytes));
  } catch (const json::exception&) {
    // It is made again, with its part.
  }
  return std::nullopt;
}

void OutputFolder::complete() const {
  // A store may have done what a killed process asked of it after this one looked.
  remove_temporaries();
  if (!storage::exists(folder_ / kSuccess)) storage::write_file(folder_ / kSuccess, "");
}

}  // namespace sullae::predict
