// What run.json says of a run, and where its files are.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace sullae::runs {

inline constexpr const char* kRecordFile = "run.json";
inline constexpr const char* kMetricsFile = "metrics.jsonl";

enum class End { completed, failed, stopped };
std::string to_text(End end);

struct Ended {
  End end = End::completed;
  double time = 0;
  std::string reason = {};  ///< for people
};

/// Times are seconds since 1970.
struct RunRecord {
  std::string name = {};
  double started = 0;
  double written = 0;  ///< this record
  std::string host = {};
  int pid = 0;
  int ranks = 1;
  std::string job = {};  ///< of `sullae jobs`; empty: of none
  std::map<std::string, std::string> settings = {};
  std::int64_t step = 0;
  std::int64_t steps = 0;                     ///< that are to be done; 0: nobody has said
  std::map<std::string, double> latest = {};  ///< by tag
  std::optional<Ended> ended = {};
};

/// JSON has no numbers that are none: "nan", "inf", "-inf".
nlohmann::json json_number(double value);

/// Throws InputError where there is a run in `folder`, or something that is called as one's lines are.
void expect_no_run(const std::filesystem::path& folder);

std::string to_text(const RunRecord& record);
/// Throws InputError for what is no record of a run.
RunRecord record_from(const std::string& text, const std::filesystem::path& file);

}  // namespace sullae::runs
