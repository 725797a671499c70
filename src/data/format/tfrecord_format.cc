#include <fmt/format.h>

#include "data/format/format.h"
#include "data/record/tfrecord_frame.h"

namespace sullae::data {
namespace {

class TFRecordDataset final : public Dataset {
 public:
  TFRecordDataset(const std::filesystem::path& path, const DatasetOptions& options)
      : file_(ByteFile::open(path)), classes_(classes_beside(path)) {
    TFRecordIndex index = index_tfrecords(*file_, path);
    if (!index.problem.empty()) meet_damage(options, index.problem);
    records_ = std::move(index.records);
  }

  std::size_t size() const override { return records_.size(); }
  std::string place(std::size_t i) const override {
    return fmt::format("{}, record {}, offset {}", file_->name(), i, records_[i].offset);
  }
  const std::vector<std::string>& classes() const override { return classes_; }

  Example read(std::size_t i) const override {
    const TFRecordPlace& record = records_[i];
    const std::string bytes = file_->read(record.offset, record.bytes);
    const std::size_t size = bytes.size() - kTFRecordHeader - kTFRecordFooter;
    const char* const data = bytes.data() + kTFRecordHeader;
    // The length too: an index may be wrong.
    if (tfrecord_length(bytes.data()) != size || !tfrecord_data_fits(data, size))
      throw DamagedRecord(place(i) + ": is damaged: its checksum does not fit");
    try {
      return parse_example({data, size});
    } catch (const DamagedRecord& error) {
      throw DamagedRecord(fmt::format("{}: {}", place(i), error.what()));
    }
  }

 private:
  std::shared_ptr<const ByteFile> file_;
  std::vector<std::string> classes_;
  std::vector<TFRecordPlace> records_;
};

}  // namespace

Format tfrecord_format() {
  return {
      .name = "tfrecord",
      .recognises =
          [](const std::filesystem::path& path, std::string_view start) {
            return has_extension(path, {".tfrecord", ".tfrecords"}) || begins_as_tfrecord(start);
          },
      .open = [](const std::filesystem::path& path, const Opening& options) -> DatasetPtr {
        return std::make_shared<TFRecordDataset>(path, options);
      }};
}

}  // namespace sullae::data
