#include <arrow/buffer.h>
#include <arrow/io/memory.h>
#include <arrow/ipc/reader.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <mutex>
#include <utility>
#include <vector>

#include "data/columnar/byte_source.h"
#include "data/columnar/kept_memory.h"
#include "data/columnar/table_file.h"

namespace sullae::data {
namespace {

arrow::ipc::IpcReadOptions in_this_thread() {
  auto options = arrow::ipc::IpcReadOptions::Defaults();
  options.use_threads = false;
  options.memory_pool = kept_memory();
  return options;
}

class ArrowFile final : public TableFile {
 public:
  explicit ArrowFile(std::shared_ptr<const ByteFile> file) : file_(std::move(file)) {
    schema_ = open(file_, in_this_thread())->schema();
    // How many rows a batch has stands in front of it: one field's values are read with it, and no
    // more.
    auto options = in_this_thread();
    options.included_fields = {0};
    const auto counter = open(file_, options);
    for (int piece = 0; piece < counter->num_record_batches(); ++piece)
      rows_.push_back(value_of(counter->ReadRecordBatch(piece))->num_rows());
  }

  const char* piece_name() const override { return "record batch"; }

  RecordBatches read(std::size_t piece, const std::vector<int>& fields) const override {
    // The others' values would be read, and kept, with them. Arrow has them in the schema's order,
    // and takes none for all.
    std::vector<int> included = fields.empty() ? std::vector<int>{0} : fields;
    std::ranges::sort(included);
    std::vector<int> places;
    for (const int field : fields)
      places.push_back(static_cast<int>(std::ranges::find(included, field) - included.begin()));
    const std::lock_guard lock(mutex_);
    if (included != included_) {
      auto options = in_this_thread();
      options.included_fields = included;
      reader_ = open(file_, options);
      included_ = std::move(included);
    }
    const auto batch = value_of(reader_->ReadRecordBatch(static_cast<int>(piece)));
    check_status(batch->ValidateFull());
    return {value_of(batch->SelectColumns(places))};
  }

 private:
  static std::shared_ptr<arrow::ipc::RecordBatchFileReader> open(
      const std::shared_ptr<const ByteFile>& file, const arrow::ipc::IpcReadOptions& options) {
    return value_of(arrow::ipc::RecordBatchFileReader::Open(make_byte_source(file), options));
  }

  std::shared_ptr<const ByteFile> file_;
  mutable std::mutex mutex_;  // guards all below
  mutable std::shared_ptr<arrow::ipc::RecordBatchFileReader> reader_;
  mutable std::vector<int> included_;  // fields that it reads
};

class ArrowStream final : public TableFile {
 public:
  explicit ArrowStream(const ByteFile& file) {
    auto bytes = arrow::Buffer::FromString(file.read(0, static_cast<std::size_t>(file.size())));
    const auto reader = value_of(arrow::ipc::RecordBatchStreamReader::Open(
        std::make_shared<arrow::io::BufferReader>(std::move(bytes)), in_this_thread()));
    schema_ = reader->schema();
    batches_ = value_of(reader->ToRecordBatches());
    for (const auto& batch : batches_) {
      check_status(batch->ValidateFull());
      rows_.push_back(batch->num_rows());
    }
  }

  const char* piece_name() const override { return "record batch"; }
  RecordBatches read(std::size_t piece, const std::vector<int>& fields) const override {
    return {value_of(batches_[piece]->SelectColumns(fields))};
  }

 private:
  RecordBatches batches_;
};

}  // namespace

std::unique_ptr<TableFile> open_arrow(const std::shared_ptr<const ByteFile>& file) {
  try {
    if (file->first(6) != "ARROW1") return std::make_unique<ArrowStream>(*file);
    return std::make_unique<ArrowFile>(file);
  } catch (const DamagedRecord& error) {
    throw DamagedRecord(
        fmt::format("{}: is no Arrow file, or is cut off: {}", file->name(), error.what()));
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw DamagedRecord(fmt::format("{}: is no Arrow file: {}", file->name(), error.what()));
  }
}

}  // namespace sullae::data
