#include <fmt/format.h>

#include "data/record/output_file.h"
#include "data/record/tfrecord_frame.h"

namespace sullae::data {

class TFRecordWriter::Impl {
 public:
  explicit Impl(const std::filesystem::path& file) : path_(file), file_(file) {}

  void write(std::string_view record) {
    char header[kTFRecordHeader];
    const std::uint64_t length = record.size();
    std::memcpy(header, &length, 8);
    const std::uint32_t length_crc = masked_crc32c({header, 8});
    std::memcpy(header + 8, &length_crc, 4);
    const std::uint32_t data_crc = masked_crc32c(record);
    file_.write({header, sizeof header});
    file_.write(record);
    file_.write({reinterpret_cast<const char*>(&data_crc), sizeof data_crc});
    const std::uint64_t bytes = kTFRecordHeader + length + kTFRecordFooter;
    index_ += fmt::format("{} {}\n", offset_, bytes);
    offset_ += bytes;
  }

  void close() {
    file_.commit();
    if (file_.compressed()) return;
    auto index_path = path_;
    index_path += ".idx";
    write_file(index_path, index_);
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
