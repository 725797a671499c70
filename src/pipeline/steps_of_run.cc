#include "pipeline/steps_of_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "base/hash.h"
#include "base/split.h"
#include "cluster/command.h"

namespace sullae::pipeline {

namespace fs = std::filesystem;

std::string StepsOfRun::command(const Step& step) const {
  return expand(step.run, pipeline_, scheduled_);
}

std::map<std::string, std::string> StepsOfRun::settings(const Step& step) const {
  std::map<std::string, std::string> all = pipeline_.environment;
  for (const auto& [name, value] : step.environment) all[name] = value;
  for (auto& [name, value] : all) value = expand(value, pipeline_, scheduled_);
  return all;
}

std::map<std::string, std::string> StepsOfRun::environment(const Step& step) const {
  auto all = settings(step);
  all["SULLAE_PIPELINE"] = pipeline_.name;
  all["SULLAE_PIPELINE_SCHEDULED"] = to_text(scheduled_);
  all["SULLAE_PIPELINE_RUN_DIR"] = state_.run_folder(scheduled_).string();
  return all;
}

// `missing`: the first that is not there.
std::map<std::string, std::string> StepsOfRun::contents(const std::vector<std::string>& paths,
                                                        std::string& missing) {
  std::map<std::string, std::string> all;
  for (const auto& path : paths) {
    const std::string expanded = expand(path, pipeline_, scheduled_);
    const bool is_elsewhere = expanded.find("://") != std::string::npos;
    const auto content =
        contents_.of(is_elsewhere ? fs::path(expanded) : pipeline_.folder / expanded);
    if (content) {
      all[expanded] = *content;
    } else if (missing.empty()) {
      missing = "'" + expanded + "'";
    }
  }
  return all;
}

std::string StepsOfRun::mark(Time scheduled, const std::string& step) const {
  return fmt::format("{}/{}", state_.run_folder(scheduled).string(), step);
}

std::string StepsOfRun::key(const Step& step, int attempts,
                            const std::map<std::string, std::string>& inputs) const {
  std::uint64_t of = fnv1a(command(step));
  for (const auto& [name, value] : settings(step)) of = fnv1a(name + '=' + value, of);
  for (const auto& [path, content] : inputs) of = fnv1a(path + '=' + content, of);
  return fmt::format("{}/{}/{}/{}/{}/{:016x}", state_.folder().string(), state_.id(), scheduled_,
                     step.name, attempts, of);
}

std::string StepsOfRun::job_name(const Step& step) const {
  return fmt::format("{}-{}", pipeline_.name, step.name).substr(0, 64);
}

std::string StepsOfRun::cancel_job(const Step& step, const fs::path& log,
                                   const fs::path& program) const {
  std::ifstream stream(log);
  const auto begin = job_name(step) + '-';
  std::string job;
  for (std::string line; std::getline(stream, line);) {
    const bool is_name = line.starts_with(begin) && line.size() > begin.size() &&
                         line.find_first_not_of("0123456789", begin.size()) == line.npos;
    if (is_name) job = line;
  }
  if (job.empty()) return "";
  const auto answer = cluster::run_command({.words = {program.string(), "jobs", "cancel", job}});
  return answer.exit_code == 0 ? "" : answer.errors;
}

std::string last_lines_of(const fs::path& file, std::uintmax_t from_byte) {
  constexpr std::streamoff kMostBytes = 2000;
  constexpr int kLines = 5;
  std::ifstream stream(file, std::ios::binary);
  stream.seekg(0, std::ios::end);
  stream.seekg(std::max(static_cast<std::streamoff>(from_byte),
                        std::streamoff{stream.tellg()} - kMostBytes));
  std::string end{std::istreambuf_iterator<char>(stream), {}};
  while (end.ends_with('\n')) end.pop_back();
  if (end.empty()) return "";
  std::size_t from = end.size();
  for (int i = 0; i < kLines && from != std::string::npos && from > 0; ++i)
    from = end.rfind('\n', from - 1);
  if (from != std::string::npos) end.erase(0, from + (from > 0 ? 1 : 0));
  std::string text;
  for (const auto& line : split(end, '\n')) text += "\n    " + line;
  return text;
}

}  // namespace sullae::pipeline
