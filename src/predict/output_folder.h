// The folder that predictions are written to: what is there, and what is left to do.
//
//   part-00000.jsonl …       predictions, each whole or absent
//   _parts/part-00000.json   of each part how many samples it has, and what was seen of them; there before the part is
//   _predict.json            what is predicted, with which model: another run does not go on here
//   _report.json, _report.html   of all, with --labels
//   _SUCCESS                 empty, and the last, as Hadoop and Spark have it
#pragma once

#include <cstddef>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"

namespace sullae::predict {

/// Used by one thread.
class OutputFolder {
 public:
  OutputFolder(std::filesystem::path folder, std::string format, std::size_t parts);

  /// Makes the folder for the run that `run` describes, or finds it begun. Throws InputError where
  /// there is something else in it, or predictions of another run, unless `overwrite`, which
  /// removes those; and where another process has it open. By one process, before others use it.
  /// Returns the numbers of the parts that are not there yet.
  std::vector<std::size_t> open(const nlohmann::json& run, bool overwrite);
  std::filesystem::path part(std::size_t number) const;
  /// To be written before the part.
  void note(std::size_t number, const nlohmann::json& seen) const;
  /// Nothing where it is missing, or damaged: then the part is missing, too.
  std::optional<nlohmann::json> noted(std::size_t number) const;
  std::filesystem::path report(const std::string& extension) const;
  /// When all is there.
  void complete() const;

 private:
  std::filesystem::path note_file(std::size_t number) const;
  std::vector<std::size_t> missing() const;
  void remove_temporaries() const;
  void remove_all() const;
  nlohmann::json description() const;
  bool is_of_this_run(const std::string& name) const;

  std::filesystem::path folder_;
  std::string format_;
  std::size_t parts_;
  UniqueFd lock_;
};

}  // namespace sullae::predict
