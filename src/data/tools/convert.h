// Data sets written anew, as files of equal size in a format that is read in sequence.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "data/tools/work.h"
#include "sullae/data/dataset.h"
#include "sullae/data/order.h"

namespace sullae::data {

struct ConvertOptions {
  std::filesystem::path output;
  std::string format = "tfrecord";  ///< one of written_formats()
  std::size_t files = 1;
  /// Removes the data set that is in `output`.
  bool overwrite = false;
  /// With gzip; Parquet with zstd instead of snappy.
  bool compress = false;
  std::size_t threads = 1;
  /// Decodes every image, to find what is damaged within; the header and the end are always looked
  /// at.
  bool decode = false;
  /// Written in the order of an epoch that is shuffled so; in the order of the data set otherwise.
  OrderOptions order = {.shuffle = false};
  /// This process writes as many of the files as the others, in a row.
  int rank = 0;
  int ranks = 1;
};

/// "tfrecord", "tar", "parquet".
const std::vector<std::string>& written_formats();

struct Converted {
  std::size_t samples = 0;
  std::size_t files = 0;
  std::uintmax_t bytes = 0;
};

/// Makes the output's folder, removes with `overwrite` the part files and the names of the classes
/// of an earlier conversion from it, so that none of them is taken for this one's where this one is
/// cut off, and writes the names of the classes to classes.txt: numbers never stand without them.
/// By one process, before any converts. Throws InputError for options that cannot be, and without
/// `overwrite` where there are such files.
void prepare_output(const Dataset& dataset, const ConvertOptions& options);

/// Writes part-00000-of-0000N.tfrecord (or .tar, .parquet). Damaged records go to `damage`. Throws
/// Error where a file cannot be written; what is not whole does not stay.
Converted convert(const Dataset& dataset, const ConvertOptions& options, DamageLog& damage,
                  const ShowProgress& show);

}  // namespace sullae::data
