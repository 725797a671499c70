// The files that a data set is in: of folders, patterns, and what Spark and Hadoop write.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "storage/store.h"
#include "sullae/data/dataset.h"

namespace sullae::data {

/// A file or a folder, and what was seen of it when it was looked for: a store is asked once.
struct Part {
  std::filesystem::path path;
  storage::Status status;
};

/// Columns that a file's folders say, "date=2026-11-22/hour=7/part-00000.parquet": names and
/// values, decoded ("%3A"), in the order of the path; no value for Hive's default partition. As
/// Hive, Spark and pyarrow write them.
using Partition = std::vector<std::pair<std::string, std::optional<std::string>>>;
Partition partition_of(const std::filesystem::path& file);

/// Throws InputError where a folder is one that Spark or Hadoop is still writing, or gave up: its
/// files are called as theirs are
/// ("part-00000-…"), or `success_file` is "yes", and it has no _SUCCESS. A folder of a partition
/// has that of the table.
void check_success(const std::vector<Part>& parts, const std::string& success_file);

/// Throws InputError where one of the `files` of folders among `parts` says how many there are of
/// its name, "part-00003-of-00128", and not all of those are there, unless `success_file` is "no".
void check_numbered(const std::vector<Part>& parts, const std::vector<Part>& files,
                    const std::string& success_file);

/// A file of a job that had nothing for it.
bool is_empty_part(const Part& part);

/// Adds what the folders say to samples of files: features of the columns' names (kept ones with
/// feature::kColumn in front; of texts the kept ones alone), whole numbers where all files have
/// such; the class where a column is the label.
class Partitions {
 public:
  /// `files`: all of the set. Throws InputError where their folders have different columns.
  Partitions(const std::vector<Part>& files, const DatasetOptions& options);
  /// What is left for the files to say.
  const DatasetOptions& rest() const { return rest_; }
  /// Whether a column is the label by its name alone.
  bool guesses_label() const { return label_ && is_guess_; }
  /// To the files, which have labels of their own.
  void leave_label();
  /// Of the file with this number.
  DatasetPtr add_to(DatasetPtr set, std::size_t file) const;

 private:
  struct Column {
    std::string name;
    bool is_number = true;
    bool is_kept = false;
  };
  void check_columns(const std::vector<Part>& files) const;

  std::vector<Partition> values_;  // of each file
  std::vector<Column> columns_;
  std::optional<std::size_t> label_;
  DatasetOptions rest_;
  bool is_guess_;
  bool unlabelled_;
  std::vector<std::string> classes_;
};

}  // namespace sullae::data
