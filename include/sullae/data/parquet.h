// Parquet files (https://parquet.apache.org) of samples. Needs Arrow C++ (`sullae --version`: with
// PARQUET); without it the constructor throws InputError.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "sullae/data/dataset.h"

namespace sullae::data {

/// The columns for samples like those of a set: what it says of its features, and of others what
/// they are in `most` samples, which are looked at in runs from its beginning to its end: a feature
/// of bytes that are UTF-8 in all of them is a text, one that has other than one value in some is a
/// list. Damaged samples are passed over. Throws InputError for a feature that is of two kinds.
std::vector<FeatureType> parquet_columns(const Dataset& set, std::size_t most = 1000);

/// Writes a Parquet file, in row groups of about 64 MB before compression, with checksums of pages.
/// Its columns are string, binary, float, double and int64, or lists of those, and its cells may be
/// null. It appears when close() is called, whole, and not at all without it. Equal samples give
/// equal bytes. Used by one thread.
class ParquetWriter {
 public:
  enum class Compression { snappy, zstd };
  /// A value of a column: of the feature's kind, and the sizes of its dimensions where there are
  /// two or more.
  struct Cell {
    const Feature* values = nullptr;  ///< null for a null
    std::vector<std::size_t> sizes = {};
  };

  ParquetWriter(const std::filesystem::path& file, std::vector<FeatureType> columns,
                Compression compression = Compression::snappy);
  ~ParquetWriter();
  ParquetWriter(const ParquetWriter&) = delete;
  ParquetWriter& operator=(const ParquetWriter&) = delete;
  /// Features by their columns' names. Throws InputError for a feature that has no column, or does
  /// not fit it, after which the next sample can be written, and Error that names the file, e.g.
  /// for a full disk.
  void write(const Example& example);
  /// A cell a column, in their order. Throws as the other.
  void write(const std::vector<Cell>& cells);
  void close();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sullae::data
