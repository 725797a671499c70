#include <fmt/format.h>

#include "data/record/output_file.h"
#include "data/record/tfrecord_frame.h"

namespace sullae::data {

namespace {

template <class Integer>
std::string bytes_of(Integer value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

std::string frame_head(std::uint64_t size) {
  const std::string length = bytes_of(size);
  return length + bytes_of(masked_crc32c(length));
}
std::string frame_tail(std::string_view record) { return bytes_of(masked_crc32c(record)); }

}  // namespace

std::string frame_record(std::string_view record) {
  return frame_head(record.size()).append(record).append(frame_tail(record));
}

class TFRecordWriter::Impl {
 public:
  explicit Impl(const std::filesystem::path& file) : path_(file), file_(file) {}

  void write(std::string_view record) {
    file_.write(frame_head(record.size()));
    file_.write(record);
    file_.write(frame_tail(record));
    const std::uint64_t bytes = kTFRecordHeader + record.size() + kTFRecordFooter;
    index_ += fmt::format("{} {}\n", offset_, bytes);
    offset_ += bytes;
  }

  void close() {
    file_.commit();
    // One in a store is not looked at.
    if (file_.compressed() || storage::is_remote(path_)) return;
    write_file(tfrecord_index_of(path_), index_);
  }

 private:
  std::filesystem::path path_;
  OutputFile file_;
  std::uint64_t offset_ = 0;
  std::string index_;
};

TFRecordWriter::TFRecordWriter(const std::filesystem::path& file)
    : impl_(std::make_unique<Impl>(file)) {}
TFRecordWriter::~TFRecordWriter() = default;
void TFRecordWriter::write(std::string_view record) { impl_->write(record); }
void TFRecordWriter::close() { impl_->close(); }

}  // namespace sullae::data
