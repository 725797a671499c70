#include "predict/output_folder.h"

#include <fmt/format.h>

#include <fstream>
#include <optional>

#include "base/file.h"
#include "sullae/error.h"

namespace sullae::predict {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kRun = "_predict.json";
constexpr const char* kNotes = "_parts";
constexpr const char* kSuccess = "_SUCCESS";
constexpr std::size_t kMostBytes = std::size_t{64} << 20;

json read_json(const fs::path& file) {
  try {
    return json::parse(read_file(file, kMostBytes));
  } catch (const json::exception& error) {
    throw InputError(fmt::format("{}: {}", file.string(), error.what()));
  }
}

// Where two runs differ.
std::string difference(const json& one, const json& other) {
  for (const auto& item : one.items()) {
    const auto found = other.find(item.key());
    if (found != other.end() && *found == item.value()) continue;
    return fmt::format("{} was {}, and is {}", item.key(),
                       found == other.end() ? "none" : found->dump(), item.value().dump());
  }
  return "it is described otherwise";
}

bool is_ours(const std::string& name) {
  return name == kRun || name == kNotes || name == kSuccess || name.starts_with("part-") ||
         name.starts_with("_report.") || name.starts_with("_predict.json.tmp-");
}

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

void OutputFolder::open(const json& run, bool overwrite) const {
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error)
    throw InputError(
        fmt::format("--output {}: cannot be made: {}", folder_.string(), error.message()));
  if (fs::exists(folder_ / kRun)) {
    const json before = read_json(folder_ / kRun);
    if (before == run) {
      // What a process has left that was killed while it wrote.
      for (const fs::path& folder : {folder_, folder_ / kNotes}) {
        for (const auto& entry : entries_of(folder, error).value_or(std::vector<fs::path>())) {
          if (entry.filename().string().find(".tmp-") != std::string::npos)
            fs::remove(entry, error);
        }
      }
      return;
    }
    if (!overwrite)
      throw InputError(fmt::format(
          "--output {}: holds predictions of another run ({}): expected another folder, or "
          "--overwrite",
          folder_.string(), difference(run, before)));
    remove_all();
  } else {
    for (const auto& entry : entries_of(folder_, error).value_or(std::vector<fs::path>()))
      if (!entry.filename().string().starts_with("_predict.json.tmp-"))
        throw InputError(
            fmt::format("--output {}: holds '{}', which is no prediction: expected an empty folder",
                        folder_.string(), entry.filename().string()));
  }
  fs::create_directories(folder_ / kNotes);
  write_file(folder_ / kRun, run.dump(2) + '\n');
}

void OutputFolder::remove_all() const {
  std::error_code error;
  // First what says that all is there.
  fs::remove(folder_ / kSuccess, error);
  for (const auto& entry : entries_of(folder_, error).value_or(std::vector<fs::path>())) {
    if (is_ours(entry.filename().string())) fs::remove_all(entry, error);
  }
}

bool OutputFolder::is_complete() const { return fs::exists(folder_ / kSuccess); }

std::vector<std::size_t> OutputFolder::missing() const {
  std::vector<std::size_t> missing;
  for (std::size_t number = 0; number < parts_; ++number) {
    if (!fs::exists(part(number))) missing.push_back(number);
  }
  return missing;
}

void OutputFolder::note(std::size_t number, const json& seen) const {
  write_file(note_file(number), seen.dump() + '\n');
}

json OutputFolder::noted(std::size_t number) const { return read_json(note_file(number)); }

void OutputFolder::complete() const { write_file(folder_ / kSuccess, ""); }

}  // namespace sullae::predict
