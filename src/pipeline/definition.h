// What a pipeline is, as its TOML file says.
#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "pipeline/schedule.h"

namespace sullae::pipeline {

/// What becomes of a run that begins while another is on its way.
enum class Overlap { skip, queue, replace };

struct Step {
  std::string name;
  /// For the shell, in the pipeline's folder.
  std::string run;
  /// Steps that must be done before: those that are named, and those that make what this one needs.
  std::vector<std::string> after = {};
  /// Files and folders, from the pipeline's folder on: by their contents it is known whether the
  /// step is done.
  std::vector<std::string> needs = {};
  std::vector<std::string> makes = {};
  /// Flags of `sullae jobs submit`: it runs as a job then; empty: here.
  std::optional<std::vector<std::string>> job = {};
  std::map<std::string, std::string> environment = {};
  std::optional<std::chrono::seconds> time = {};  ///< that an attempt may take
  int attempts = 1;
};

/// Who is told, and of what: "late", "failed", "done".
struct Tell {
  std::string command;  ///< for the shell, with SULLAE_PIPELINE_EVENT and _MESSAGE, and JSON on its
                        ///< standard input
  std::string webhook;  ///< gets the same JSON, by POST
  std::vector<std::string> of = {"late", "failed"};
};

struct Pipeline {
  std::string name;
  std::filesystem::path file;
  std::filesystem::path folder;  ///< of the file: where steps run
  std::optional<Schedule> every = {};
  std::string deadline = {};
  Overlap overlap = Overlap::skip;
  int parallel = 0;  ///< steps at a time; 0: all that can
  std::map<std::string, std::string> environment = {};
  Tell tell = {};
  /// Each behind those that it comes after.
  std::vector<Step> steps = {};

  const Step& step(const std::string& name) const;
};

/// Whether it has steps: other programs' settings are in TOML files, too. Does not throw.
bool looks_like_pipeline(const std::filesystem::path& file);
/// Throws InputError with file and line for what is wrong, and for steps that wait for each other.
Pipeline read_pipeline(const std::filesystem::path& file);

/// `text` with what stands for the scheduled time put in: {date} (2026-11-24), {time}
/// (2026-11-24T02:00:00+0900), {name}, and strftime()'s signs, {%Y/%m/%d}. Other braces are the
/// shell's.
std::string expand(const std::string& text, const Pipeline& pipeline, Time scheduled);

}  // namespace sullae::pipeline
