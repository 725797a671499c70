#include "runs/record.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/dump_json.h"
#include "base/environment.h"
#include "base/file.h"
#include "base/json_message.h"
#include "sullae/error.h"

namespace sullae::runs {
namespace {

using nlohmann::json;

constexpr int kFormat = 1;
constexpr const char* kWords[] = {"completed", "failed", "stopped"};

double number_from(const json& value) {
  if (value.is_null()) return std::numeric_limits<double>::quiet_NaN();
  if (const auto* const text = value.get_ptr<const std::string*>()) {
    if (const auto number = number_of(*text)) return *number;
  }
  return value.get<double>();
}

End end_of(const std::string& text) {
  for (const End end : {End::completed, End::failed, End::stopped}) {
    if (to_text(end) == text) return end;
  }
  throw InputError(fmt::format("'{}' is no way to end", text));
}

}  // namespace

nlohmann::json json_number(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

std::optional<double> number_of(std::string_view text) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (text == "inf") return kInfinity;
  return text == "-inf" ? std::optional(-kInfinity) : std::nullopt;
}

std::string launch_of_environment() {
  std::string job;
  read_text(process_environment(), "SULLAE_JOB_ID", job);
  return job.substr(0, job.rfind('-'));  // whose last part is an attempt's
}

void expect_new_run(const std::filesystem::path& folder) {
  const auto file = folder / kRecordFile;
  struct stat status = {};
  if (::stat(file.c_str(), &status) == 0) {
    const auto launch = launch_of_environment();
    if (!launch.empty()) {
      const auto record = record_from(read_file(file, kMostRecordBytes), file);
      if (record.launch == launch && !(record.ended && record.ended->end == End::completed)) return;
    }
    throw InputError(
        fmt::format("{}: there is a run in it already: expected another folder, or to go on with "
                    "it (--resume, or resume)",
                    folder.string()));
  }
  // Others call their files so, too.
  if (::stat((folder / kMetricsFile).c_str(), &status) == 0 && status.st_size > 0)
    throw InputError(fmt::format("{}: is there, and no {} beside it: expected another folder",
                                 (folder / kMetricsFile).string(), kRecordFile));
}

std::string to_text(End end) { return kWords[static_cast<int>(end)]; }

std::string to_text(const RunRecord& record) {
  json latest = json::object();
  for (const auto& [tag, value] : record.latest) latest[tag] = json_number(value);
  json saved{{"sullae_run", kFormat},     {"name", record.name},
             {"started", record.started}, {"written", record.written},
             {"host", record.host},       {"pid", record.pid},
             {"ranks", record.ranks},     {"job", record.job},
             {"launch", record.launch},   {"settings", record.settings},
             {"step", record.step},       {"steps", record.steps},
             {"latest", latest}};
  if (const auto& ended = record.ended)
    saved["ended"] = {
        {"how", to_text(ended->end)}, {"time", ended->time}, {"reason", ended->reason}};
  return dump_json(saved, 2) + '\n';
}

RunRecord record_from(const std::string& text, const std::filesystem::path& file) {
  const auto fail = [&](const std::string& why) {
    throw InputError(fmt::format("{}: no record of a run: {}", file.string(), why));
  };
  try {
    const json saved = json::parse(text);
    if (!saved.is_object() || !saved.contains("sullae_run")) fail("it has no \"sullae_run\"");
    if (saved.at("sullae_run") != kFormat)
      fail(fmt::format("it is of format {}, and this program reads {}",
                       saved.at("sullae_run").dump(), kFormat));
    RunRecord record{.name = saved.at("name"),
                     .started = saved.at("started"),
                     .written = saved.at("written"),
                     .host = saved.at("host"),
                     .pid = saved.at("pid"),
                     .ranks = saved.at("ranks"),
                     .job = saved.at("job"),
                     .launch = saved.value("launch", ""),
                     .settings = saved.at("settings"),
                     .step = saved.at("step"),
                     .steps = saved.at("steps")};
    for (const auto& [tag, value] : saved.at("latest").items())
      record.latest[tag] = number_from(value);
    if (saved.contains("ended")) {
      const auto& ended = saved.at("ended");
      record.ended = {
          .end = end_of(ended.at("how")), .time = ended.at("time"), .reason = ended.at("reason")};
    }
    return record;
  } catch (const json::exception& error) {
    fail(json_message(error));
  }
  return {};
}

}  // namespace sullae::runs
