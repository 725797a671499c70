// Tables as Arrow writes them.
#pragma once

#include <arrow/array.h>
#include <arrow/io/file.h>
#include <arrow/ipc/writer.h>
#include <arrow/json/from_string.h>
#include <arrow/table.h>
#include <arrow/type.h>
#include <parquet/arrow/writer.h>

#include <string>
#include <utility>
#include <vector>

#include "data/files.h"

namespace sullae::testing {

template <class Value>
Value value_or_abort(arrow::Result<Value> result) {
  return std::move(result).ValueOrDie();
}

/// A column of a table, its values as JSON.
struct JsonColumn {
  std::string name;
  std::shared_ptr<arrow::DataType> type;
  std::string values;
};

inline std::shared_ptr<arrow::Table> make_table(const std::vector<JsonColumn>& columns) {
  std::vector<std::shared_ptr<arrow::Field>> fields;
  std::vector<std::shared_ptr<arrow::Array>> arrays;
  for (const auto& [name, type, values] : columns) {
    fields.push_back(arrow::field(name, type));
    arrays.push_back(value_or_abort(arrow::json::ArrayFromJSONString(type, values)));
  }
  return arrow::Table::Make(arrow::schema(fields), arrays);
}

class Tables : public Files {
 protected:
  std::filesystem::path write_parquet(const std::string& name, const arrow::Table& table,
                                      std::int64_t rows_a_group = 1024,
                                      const std::shared_ptr<parquet::WriterProperties>& properties =
                                          parquet::default_writer_properties()) {
    const auto stream = value_or_abort(arrow::io::FileOutputStream::Open(path(name).string()));
    EXPECT_TRUE(parquet::arrow::WriteTable(table, arrow::default_memory_pool(), stream,
                                           rows_a_group, properties)
                    .ok());
    EXPECT_TRUE(stream->Close().ok());
    return path(name);
  }

  /// `stream`: in the stream format.
  std::filesystem::path write_arrow(const std::string& name, const arrow::Table& table,
                                    std::int64_t rows_a_batch, bool stream = false) {
    const auto file = value_or_abort(arrow::io::FileOutputStream::Open(path(name).string()));
    const auto writer = value_or_abort(stream ? arrow::ipc::MakeStreamWriter(file, table.schema())
                                              : arrow::ipc::MakeFileWriter(file, table.schema()));
    EXPECT_TRUE(writer->WriteTable(table, rows_a_batch).ok());
    EXPECT_TRUE(writer->Close().ok());
    EXPECT_TRUE(file->Close().ok());
    return path(name);
  }
};

}  // namespace sullae::testing
