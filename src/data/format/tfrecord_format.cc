#include <fmt/format.h>

#include <array>
#include <memory>
#include <utility>

#include "data/format/format.h"
#include "data/record/tfrecord_frame.h"

namespace sullae::data {
namespace {

// What a file's frames hold.
class FileFrames final : public Records {
 public:
  FileFrames(std::shared_ptr<const ByteFile> file, std::vector<TFRecordPlace> frames)
      : file_(std::move(file)), frames_(std::move(frames)) {}

  const std::string& name() const override { return file_->name(); }
  std::size_t size() const override { return frames_.size(); }
  std::string place(std::size_t i) const override {
    return fmt::format("{}, record {}, offset {}", name(), i, frames_[i].offset);
  }
  std::string read(std::size_t i) const override {
    const TFRecordPlace& frame = frames_[i];
    std::array<char, kTFRecordHeader> header;
    file_->read(frame.offset, header.data(), header.size());
    std::string bytes = file_->read(frame.offset + header.size(), frame.bytes - header.size());
    const std::size_t size = bytes.size() - kTFRecordFooter;
    // The length too: an index may be wrong.
    if (tfrecord_length(header.data()) != size || !tfrecord_data_fits(bytes.data(), size))
      throw DamagedRecord(place(i) + ": is damaged: its checksum does not fit");
    bytes.resize(size);
    return bytes;
  }

 private:
  std::shared_ptr<const ByteFile> file_;
  std::vector<TFRecordPlace> frames_;
};

// A tf.train.Example each.
class ExampleDataset final : public Dataset {
 public:
  ExampleDataset(std::shared_ptr<const Records> records, std::vector<std::string> classes)
      : records_(std::move(records)), classes_(std::move(classes)) {}

  std::size_t size() const override { return records_->size(); }
  std::string place(std::size_t i) const override { return records_->place(i); }
  const std::vector<std::string>& classes() const override { return classes_; }

  Example read(std::size_t i) const override {
    const std::string bytes = records_->read(i);
    try {
      return parse_example(bytes);
    } catch (const DamagedRecord& error) {
      throw DamagedRecord(fmt::format("{}: {}", place(i), error.what()));
    }
  }

 private:
  std::shared_ptr<const Records> records_;
  std::vector<std::string> classes_;
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
        auto file = ByteFile::open(path);
        TFRecordIndex index = index_tfrecords(*file, path);
        if (!index.problem.empty()) meet_damage(options, index.problem);
        return std::make_shared<ExampleDataset>(
            std::make_shared<FileFrames>(std::move(file), std::move(index.records)),
            classes_beside(path));
      },
      .open_records = [](std::shared_ptr<const Records> records,
                         const DatasetOptions&) -> DatasetPtr {
        return std::make_shared<ExampleDataset>(std::move(records), std::vector<std::string>());
      },
      .shape =
          [](const std::string&, const DatasetOptions&) {
            return std::string();
          }};
}

}  // namespace sullae::data
