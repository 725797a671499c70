#include <arrow/record_batch.h>
#include <arrow/table.h>
#include <arrow/type.h>
#include <fmt/format.h>
#include <parquet/arrow/reader.h>
#include <parquet/exception.h>
#include <parquet/file_reader.h>
#include <parquet/properties.h>

#include <algorithm>
#include <exception>

#include "data/columnar/byte_source.h"
#include "data/columnar/kept_memory.h"
#include "data/columnar/table_file.h"

namespace sullae::data {
namespace {

// What does not return a Status throws; also for sizes that a damaged file says, which no memory is
// enough for.
template <class Work>
auto with_arrow(const Work& work) {
  try {
    return work();
  } catch (const Error&) {
    throw;
  } catch (const parquet::ParquetStatusException& error) {
    check_status(error.status());
    throw;
  } catch (const std::exception& error) {
    throw DamagedRecord(error.what());
  }
}

class ParquetFile final : public TableFile {
 public:
  explicit ParquetFile(const std::shared_ptr<const ByteFile>& file)
      : source_(make_byte_source(file)) {
    with_arrow([&] {
      const auto reader = open();
      metadata_ = reader->parquet_reader()->metadata();
      check_status(reader->GetSchema(&schema_));
      for (int piece = 0; piece < metadata_->num_row_groups(); ++piece) {
        const std::int64_t rows = metadata_->RowGroup(piece)->num_rows();
        if (rows < 0) throw DamagedRecord(fmt::format("row group {} has {} rows", piece, rows));
        rows_.push_back(rows);
      }
    });
  }

  const char* piece_name() const override { return "row group"; }

  RecordBatches read(std::size_t piece, const std::vector<int>& fields) const override {
    return with_arrow([&] {
      const auto table = value_of(open()->ReadRowGroup(static_cast<int>(piece), leaves_of(fields)));
      if (table->num_rows() != rows_[piece] ||
          table->num_columns() != static_cast<int>(fields.size()))
        throw DamagedRecord(fmt::format("has {} rows of {} columns, expected {} of {}",
                                        table->num_rows(), table->num_columns(), rows_[piece],
                                        fields.size()));
      // The order of the fields is the file's.
      std::vector<int> order;
      for (const int field : fields)
        order.push_back(table->schema()->GetFieldIndex(schema_->field(field)->name()));
      const auto ordered = value_of(table->SelectColumns(order));
      return value_of(arrow::TableBatchReader(*ordered).ToRecordBatches());
    });
  }

 private:
  // A reader is of one thread; all have what was read of the end of the file.
  std::unique_ptr<parquet::arrow::FileReader> open() const {
    parquet::ReaderProperties properties(kept_memory());
    properties.set_page_checksum_verification(true);
    parquet::ArrowReaderProperties arrow_properties(/*use_threads=*/false);
    arrow_properties.set_pre_buffer(false);
    parquet::arrow::FileReaderBuilder builder;
    builder.memory_pool(kept_memory());
    check_status(builder.Open(source_, properties, metadata_));
    builder.properties(arrow_properties);
    return value_of(builder.Build());
  }

  // The columns of Parquet, of which a list or a structure has several.
  std::vector<int> leaves_of(const std::vector<int>& fields) const {
    std::vector<int> leaves;
    const auto& columns = *metadata_->schema();
    for (int leaf = 0; leaf < columns.num_columns(); ++leaf) {
      const int root = columns.group_node()->FieldIndex(*columns.GetColumnRoot(leaf));
      if (std::ranges::find(fields, root) != fields.end()) leaves.push_back(leaf);
    }
    return leaves;
  }

  std::shared_ptr<arrow::io::RandomAccessFile> source_;
  std::shared_ptr<parquet::FileMetaData> metadata_;
};

}  // namespace

std::unique_ptr<TableFile> open_parquet(const std::shared_ptr<const ByteFile>& file) {
  try {
    return std::make_unique<ParquetFile>(file);
  } catch (const DamagedRecord& error) {
    throw DamagedRecord(
        fmt::format("{}: is no Parquet file, or is cut off: {}", file->name(), error.what()));
  }
}

}  // namespace sullae::data
