// What run.json says of a run, and where its files are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace sullae::runs {

inline constexpr const char* kRecordFile = "run.json";
inline constexpr const char* kMetricsFile = "metrics.jsonl";
/// Of a record that may be read.
inline constexpr std::size_t kMostRecordBytes = std::size_t{16} << 20;

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
  std::string job = {};     ///< of `sullae jobs`; empty: of none
  std::string launch = {};  ///< see launch_of_environment()
  std::map<std::string, std::string> settings = {};
  std::int64_t step = 0;
  std::int64_t steps = 0;                     ///< that are to be done; 0: nobody has said
  std::map<std::string, double> latest = {};  ///< by tag
  std::optional<Ended> ended = {};
};

/// JSON has no numbers that are none: "nan", "inf", "-inf"; and back.
nlohmann::json json_number(double value);
std::optional<double> number_of(std::string_view text);

/// The `sullae run` that has started this process, whatever the attempt; empty: none has.
std::string launch_of_environment();
/// Throws InputError where there is something in `folder` that is called as one's lines are, or a
/// run, unless it has not completed and is of this process's own launch: a job that is started
/// again, or whose ranks come and go, is the same one.
void expect_new_run(const std::filesystem::path& folder);

std::string to_text(const RunRecord& record);
/// Throws InputError for what is no record of a run.
RunRecord record_from(const std::string& text, const std::filesystem::path& file);

}  // namespace sullae::runs
