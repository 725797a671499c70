// Our files as Arrow reads them, and what Arrow says as we say it.
#pragma once

#include <arrow/io/interfaces.h>
#include <arrow/result.h>
#include <arrow/status.h>

#include <memory>

#include "data/record/byte_file.h"
#include "sullae/data/dataset.h"

namespace sullae::data {

std::shared_ptr<arrow::io::RandomAccessFile> make_byte_source(std::shared_ptr<const ByteFile> file);

/// Throws DamagedRecord; where it was the file that could not be read (a store that does not
/// answer, say), what that threw.
void check_status(const arrow::Status& status);
template <class Value>
Value value_of(arrow::Result<Value> result) {
  check_status(result.status());
  return std::move(result).ValueUnsafe();
}

}  // namespace sullae::data
