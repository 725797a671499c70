// Files of predictions, a row a sample.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "serve/tensors.h"
#include "sullae/data/example.h"

namespace sullae::predict {

/// The formats that there are.
std::vector<std::string> formats();

/// What is written of a sample.
struct Row {
  std::uint64_t number = 0;  ///< of the sample in the data set
  const data::Example& sample;
  /// Of a batch, [rows, …] each, of which this one's is the row `of_batch`.
  const std::vector<serve::InferTensor>& outputs;
  std::size_t of_batch = 0;
};

/// A file that is whole or absent. Used by one thread.
class RowWriter {
 public:
  virtual ~RowWriter() = default;
  /// Throws Error that names the file, e.g. for a full disk.
  virtual void write(const Row& row) = 0;
  /// Puts the file in place.
  virtual void close() = 0;
};

/// `columns`: the features that travel along. Of outputs all are written, or those that are named.
std::unique_ptr<RowWriter> make_row_writer(const std::string& format,
                                           const std::filesystem::path& file,
                                           const std::vector<std::string>& columns,
                                           const std::vector<std::string>& outputs);

}  // namespace sullae::predict
