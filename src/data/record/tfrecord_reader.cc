#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "data/record/input_file.h"
#include "data/record/tfrecord_frame.h"
#include "sullae/data/dataset.h"

namespace sullae::data {

class TFRecordReader::Impl {
 public:
  explicit Impl(const std::filesystem::path& file) : name_(file.string()), input_(file) {
    buffer_.resize(kBlock);
  }

  std::optional<std::string_view> next() {
    if (started_) {
      ++record_;
      offset_ += size_;
    }
    started_ = true;
    size_ = 0;
    if (!have(1)) return std::nullopt;
    need(kTFRecordHeader);
    const auto length = tfrecord_length(at());
    if (!length) {
      throw InputError(fmt::format(
          "{}: the checksum of its length does not fit, so that no record after it can be found",
          place()));
    }
    take(kTFRecordHeader);
    // Not in one piece before it is there: a damaged length must not ask for all memory.
    need(std::max(*length, *length + kTFRecordFooter));
    const std::string_view data(at(), *length);
    const bool fits = tfrecord_data_fits(at(), *length);
    take(*length + kTFRecordFooter);
    if (!fits)
      throw DamagedRecord(fmt::format("{}: is damaged: its checksum does not fit", place()));
    return data;
  }

  std::uint64_t offset() const { return offset_; }
  std::size_t record() const { return record_; }

 private:
  static constexpr std::size_t kBlock = std::size_t{1} << 19;  // fits in the second-level cache

  std::string place() const {
    return fmt::format("{}, record {}, offset {}", name_, record_, offset_);
  }
  const char* at() const { return buffer_.data() + begin_; }
  void take(std::size_t bytes) {
    begin_ += bytes;
    size_ += bytes;
  }
  void need(std::uint64_t bytes) {
    if (have(bytes)) return;
    throw InputError(fmt::format("{}: is truncated: {} bytes expected, {} are left", place(), bytes,
                                 end_ - begin_));
  }
  // Whether that many bytes are in the buffer, or can be read into it.
  bool have(std::uint64_t bytes) {
    while (end_ - begin_ < bytes) {
      std::memmove(buffer_.data(), at(), end_ - begin_);
      end_ -= std::exchange(begin_, 0);
      if (end_ == buffer_.size()) buffer_.resize(2 * buffer_.size());
      const std::size_t n = input_.read(buffer_.data() + end_, buffer_.size() - end_);
      if (n == 0) return false;
      end_ += n;
    }
    return true;
  }

  std::string name_;
  InputFile input_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  bool started_ = false;
  std::size_t record_ = 0;
  std::uint64_t offset_ = 0;
  std::uint64_t size_ = 0;  // of the record, with its frame
};

TFRecordReader::TFRecordReader(const std::filesystem::path& file)
    : impl_(std::make_unique<Impl>(file)) {}
TFRecordReader::~TFRecordReader() = default;
std::optional<std::string_view> TFRecordReader::next() { return impl_->next(); }
std::uint64_t TFRecordReader::offset() const { return impl_->offset(); }
std::size_t TFRecordReader::record() const { return impl_->record(); }

}  // namespace sullae::data
