// The seam between data sets and the formats that they are stored in.
#pragma once

#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "data/columnar/piece_cache.h"
#include "data/record/records.h"
#include "sullae/data/dataset.h"

namespace sullae::data {

/// How a part of a data set is opened.
struct Opening : DatasetOptions {
  /// Of all its parts.
  std::shared_ptr<PieceCache> decoded;
  /// Takes the columns that are asked for, and that a part does not have whose format leaves nulls
  /// out: another may have them. Null throws.
  std::set<std::string>* lacking = nullptr;
};

/// A format of part files. Adding one is a file and a line in formats.cc.
///
/// What open() returns may leave out labels and name classes instead (feature::kClass and
/// classes()): open_dataset numbers them over all parts.
struct Format {
  std::string name;
  /// Whether its classes are what a column holds.
  bool is_table = false;
  /// Whether a file, or a folder, looks like it; `start` holds a file's first bytes, decompressed.
  bool (*recognises)(const std::filesystem::path& path, std::string_view start);
  /// One file, or a folder. Throws InputError.
  DatasetPtr (*open)(const std::filesystem::path& path, const Opening& opening);
  /// Where each sample is a record of its own: of records from anywhere, one at least. Null for
  /// other formats. Throws InputError.
  DatasetPtr (*open_records)(std::shared_ptr<const Records> records,
                             const DatasetOptions& options) = nullptr;
  /// Of such formats: records of equal shapes are, opened together, what each is alone.
  std::string (*shape)(const std::string& record, const DatasetOptions& options) = nullptr;
};

const std::vector<Format>& formats();

Format arrow_format();
Format csv_format();
Format folder_format();
Format idx_format();
Format jsonl_format();
Format parquet_format();
Format tar_format();
Format text_format();
Format tfrecord_format();
Format tsv_format();

/// Of a build without Arrow C++ they throw InputError.
DatasetPtr open_parquet_set(const std::filesystem::path& path, const Opening& opening);
DatasetPtr open_arrow_set(const std::filesystem::path& path, const Opening& opening);

/// The file of an IDX file's labels, "train-labels-idx1-ubyte" for "train-images-idx3-ubyte",
/// without ".gz"; an empty path where the name is not one of images.
std::filesystem::path idx_labels_of(const std::filesystem::path& images);

/// A damaged part that opening met goes to options.damage, or is thrown where there is none.
void meet_damage(const DatasetOptions& options, const std::string& message);

/// Whether the name, without ".gz", ends in one of `endings`.
bool has_extension(const std::filesystem::path& path,
                   std::initializer_list<std::string_view> endings);

/// The classes' names, a line each, in the file classes.txt beside `path`; none where there is
/// none. Throws Error where that cannot be seen.
std::vector<std::string> classes_beside(const std::filesystem::path& path);

/// Whether a file name is that of a JPEG file.
bool is_jpeg_name(std::string_view name);

/// Counts pictures that are no JPEG files, which a user would miss, and warns of them once.
class OtherPictures {
 public:
  /// Of any file that is left out.
  void note(const std::filesystem::path& file);
  /// `where` is the folder or archive.
  void report(const std::string& where) const;

 private:
  std::size_t count_ = 0;
  std::string first_;
};

}  // namespace sullae::data
