// The formats of files of predictions, and what they have in common.
#pragma once

#include <filesystem>
#include <memory>

#include "predict/row_writer.h"
#include "serve/tensors.h"

namespace sullae::predict {

/// A JSON object; outputs of several dimensions as nested lists.
std::unique_ptr<RowFormat> json_rows(RowFields fields);
/// RFC 4180; several numbers of one row are one field, with spaces between them.
std::unique_ptr<RowFormat> csv_rows(RowFields fields);
/// tf.train.Example.
std::unique_ptr<RowFormat> example_rows(RowFields fields);

/// A row a line.
std::unique_ptr<RowWriter> lines_file(const std::filesystem::path& file,
                                      std::unique_ptr<RowFormat> format);
std::unique_ptr<RowWriter> tfrecord_file(const std::filesystem::path& file,
                                         std::unique_ptr<RowFormat> format);
std::unique_ptr<RowWriter> parquet_file(const std::filesystem::path& file, RowFields fields);

/// How many elements of an output a row has.
inline std::size_t elements_a_row(const serve::InferTensor& output) {
  std::size_t count = 1;
  for (std::size_t i = 1; i < output.shape.size(); ++i)
    count *= static_cast<std::size_t>(output.shape[i]);
  return count;
}

}  // namespace sullae::predict
