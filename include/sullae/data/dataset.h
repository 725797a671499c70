// Data sets of any format, as samples that can be read in any order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "sullae/data/example.h"
#include "sullae/error.h"

namespace sullae::data {

/// One record that cannot be read, while others of its file can be.
class DamagedRecord : public InputError {
 public:
  using InputError::InputError;
};

/// What becomes of damaged records: thrown, or counted, reported and skipped. Any thread.
class DamageLog {
 public:
  /// Of a stream nothing comes twice, and of what has no end nothing can be remembered.
  enum class Of { set, stream };
  /// With `skip` false, report() throws.
  explicit DamageLog(bool skip, Of of = Of::set) : skip_(skip), of_(of) {}
  /// Throws DamagedRecord with `message`, or counts it; of a set once, however often it comes. The
  /// first ten are reported as warnings.
  void report(const std::string& message);
  std::size_t count() const;
  /// Of a set a number for each, which depends on its message alone.
  std::set<std::uint64_t> records() const;

 private:
  bool skip_;
  Of of_;
  mutable std::mutex mutex_;  // guards:
  std::size_t count_ = 0;
  std::set<std::uint64_t> messages_;  // their hashes
};

/// Samples by number. All functions may be called from any thread.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual std::size_t size() const = 0;
  /// Sample `i`, which must be less than size(). Throws DamagedRecord with place(i) in its message.
  virtual Example read(std::size_t i) const = 0;
  /// "file, record n, offset o", for messages.
  virtual std::string place(std::size_t i) const = 0;
  /// The names of the classes, in the order of their labels; empty where the set does not say.
  virtual const std::vector<std::string>& classes() const;
  /// Of features that are of a type by the set's own word; of others only samples tell.
  virtual std::vector<FeatureType> feature_types() const { return {}; }
};
using DatasetPtr = std::shared_ptr<const Dataset>;

struct DatasetOptions {
  /// "auto" (by the names and the first bytes of the files), or a name of dataset_formats().
  std::string format = "auto";
  /// The classes in the order of their labels, for formats that name them. Empty takes those that
  /// are found, sorted where the parts' differ: give those of the training set when opening the
  /// test set. Labels that are numbers of a part's own classes are numbered anew.
  std::vector<std::string> classes;

  // Of CSV, TSV, Parquet and Arrow.
  /// Whether the first line names the columns: "yes", "no", or "auto": yes where it has a field
  /// called "label", "text" or the like, or one of the columns below.
  std::string header = "auto";
  /// Whether fields may be in double quotes (RFC 4180): "yes", "no", or "auto": in CSV, and not in
  /// TSV.
  std::string quotes = "auto";
  /// Columns by name or, from 1, by number; several text columns, separated by commas, are joined
  /// with a space. Empty: the label is the column called "label", "class", "category" or "target",
  /// else the first of a CSV and the last of a TSV; the text is the columns called "text",
  /// "document", "title", "description", "sentence", "review" or "content", else all but the label.
  std::string text_columns;
  std::string label_column;

  /// Whether samples without a label will do: then a table's label is the column that is called so,
  /// if any.
  bool unlabelled = false;
  /// Columns by name or number that become features, bytes, named feature::kColumn and the column's
  /// name.
  std::vector<std::string> kept_columns = {};

  /// Whether each sample stands alone, as a message does, and those of one set are alike: kept
  /// columns may be missing, and a sample without any of its texts is damaged, while of a table an
  /// empty field may be null.
  bool stand_alone = false;

  /// What is kept of decoded Parquet row groups and Arrow record batches, in bytes, over all files;
  /// at least one is. Read in order each is decoded once.
  std::size_t decoded_bytes = std::size_t{1} << 30;

  /// Whether folders must have the file _SUCCESS, which Spark and Hadoop write when all else is
  /// there: "yes", "no", or "auto": those whose files are called as Spark's and Hadoop's are
  /// ("part-00000-….parquet"). But for "no", folders must also have all files that say how many
  /// they are ("part-00000-of-00008.tfrecord").
  std::string success_file = "auto";

  /// Takes damaged parts that opening meets (a torn end of a TFRecord file, say); null throws.
  DamageLog* damage = nullptr;
};

/// Opens files, or messages of a topic of Kafka ("kafka://HOST:PORT/TOPIC?0=0-500&1=0-498": of
/// partitions those offsets), as one data set. Each of `paths` is a file, a folder, or a glob
/// pattern such as "data/part-*"; files are taken in the order of their names, and those that Spark
/// and Hadoop write beside the parts ("_SUCCESS", ".part-0.crc") are left out. Folders in folders
/// are taken where they are partitions, "date=2026-11-22", whose columns the samples have.
/// Compressed files (gzip) are decompressed into memory; others are read where they are, record by
/// record. Throws InputError for a path without files, for files that are of no or of different
/// formats, for a folder without its _SUCCESS or some of its files, and for numbers as labels
/// without names beside parts whose labels have names. Raises the soft limit of open files to the
/// hard one: each file stays open.
DatasetPtr open_dataset(const std::vector<std::filesystem::path>& paths,
                        const DatasetOptions& options = {});

/// The names of all formats.
std::vector<std::string> dataset_formats();

/// The files that `paths` stand for, as open_dataset finds them; a topic stands for itself.
std::vector<std::filesystem::path> find_part_files(const std::vector<std::filesystem::path>& paths);

/// Whether a file of this name in a folder is taken as data: those that start with "." or "_" are
/// not, nor are indices, checksums, the names of classes, and labels that belong to an IDX file of
/// images.
bool is_part_file(const std::filesystem::path& file);

/// Keeps what was read of `dataset` in memory, up to `max_bytes`; the rest is read again each time.
DatasetPtr cache_in_memory(DatasetPtr dataset, std::size_t max_bytes);

/// Some samples of `dataset`: those with the numbers `indices`.
DatasetPtr subset(DatasetPtr dataset, std::vector<std::size_t> indices);

}  // namespace sullae::data
