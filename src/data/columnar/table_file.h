// Tables that are stored in columns, and in pieces that are read as a whole: a Parquet file's row
// groups, an Arrow file's record batches.
#pragma once

#include <arrow/type_fwd.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "data/record/byte_file.h"

namespace sullae::data {

using RecordBatches = std::vector<std::shared_ptr<arrow::RecordBatch>>;

/// Any thread.
class TableFile {
 public:
  virtual ~TableFile() = default;
  const std::shared_ptr<arrow::Schema>& schema() const { return schema_; }
  /// Of each piece.
  const std::vector<std::int64_t>& rows() const { return rows_; }
  /// "row group", for messages.
  virtual const char* piece_name() const = 0;
  /// The fields of the schema with these numbers, in this order, of a piece. Throws DamagedRecord,
  /// which says why and not where.
  virtual RecordBatches read(std::size_t piece, const std::vector<int>& fields) const = 0;

 protected:
  std::shared_ptr<arrow::Schema> schema_;
  std::vector<std::int64_t> rows_;
};

/// Throw DamagedRecord, which names the file, for one that is none, or is cut off.
std::unique_ptr<TableFile> open_parquet(const std::shared_ptr<const ByteFile>& file);
/// Of the file format and of the stream format, which is read as a whole.
std::unique_ptr<TableFile> open_arrow(const std::shared_ptr<const ByteFile>& file);

}  // namespace sullae::data
