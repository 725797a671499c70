#include "data/columnar/byte_source.h"

#include <arrow/buffer.h>

#include <algorithm>
#include <exception>
#include <string>
#include <utility>

#include "data/columnar/kept_memory.h"

namespace sullae::data {
namespace {

// What a file threw, on its way through Arrow.
class Failure final : public arrow::StatusDetail {
 public:
  // Of what is caught now.
  Failure() = default;
  const char* type_id() const override { return kType; }
  std::string ToString() const override { return "the file cannot be read"; }
  [[noreturn]] void rethrow() const { std::rethrow_exception(exception_); }

  static constexpr const char* kType = "sullae::data::Failure";

 private:
  std::exception_ptr exception_ = std::current_exception();
};

class ByteSource final : public arrow::io::RandomAccessFile {
 public:
  explicit ByteSource(std::shared_ptr<const ByteFile> file) : file_(std::move(file)) {}

  arrow::Status Close() override {
    closed_ = true;
    return arrow::Status::OK();
  }
  bool closed() const override { return closed_; }
  arrow::Result<std::int64_t> GetSize() override {
    return static_cast<std::int64_t>(file_->size());
  }
  arrow::Result<std::int64_t> Tell() const override { return position_; }
  arrow::Status Seek(std::int64_t position) override {
    position_ = position;
    return arrow::Status::OK();
  }
  arrow::Result<std::int64_t> Read(std::int64_t bytes, void* into) override {
    ARROW_ASSIGN_OR_RAISE(const auto count, ReadAt(position_, bytes, into));
    position_ += count;
    return count;
  }
  arrow::Result<std::shared_ptr<arrow::Buffer>> Read(std::int64_t bytes) override {
    ARROW_ASSIGN_OR_RAISE(auto buffer, ReadAt(position_, bytes));
    position_ += buffer->size();
    return buffer;
  }

  // These two by any thread.
  arrow::Result<std::int64_t> ReadAt(std::int64_t position, std::int64_t bytes,
                                     void* into) override {
    const auto size = static_cast<std::int64_t>(file_->size());
    if (position < 0 || bytes < 0 || position > size)
      return arrow::Status::IOError("a place outside of the file is named: byte ", position, " of ",
                                    size);
    const std::int64_t count = std::min(bytes, size - position);
    try {
      file_->read(static_cast<std::uint64_t>(position), into, static_cast<std::size_t>(count));
    } catch (const Error& error) {
      return arrow::Status::IOError(error.what()).WithDetail(std::make_shared<Failure>());
    }
    return count;
  }
  arrow::Result<std::shared_ptr<arrow::Buffer>> ReadAt(std::int64_t position,
                                                       std::int64_t bytes) override {
    const auto size = static_cast<std::int64_t>(file_->size());
    const auto count =
        std::clamp<std::int64_t>(size - position, 0, std::max<std::int64_t>(bytes, 0));
    ARROW_ASSIGN_OR_RAISE(auto buffer, arrow::AllocateBuffer(count, kept_memory()));
    ARROW_ASSIGN_OR_RAISE(const auto read, ReadAt(position, count, buffer->mutable_data()));
    (void)read;
    return std::shared_ptr<arrow::Buffer>(std::move(buffer));
  }

 private:
  std::shared_ptr<const ByteFile> file_;
  std::int64_t position_ = 0;
  bool closed_ = false;
};

}  // namespace

void check_status(const arrow::Status& status) {
  if (status.ok()) return;
  if (status.detail() != nullptr && status.detail()->type_id() == Failure::kType)
    static_cast<const Failure&>(*status.detail()).rethrow();
  throw DamagedRecord(status.message());
}

std::shared_ptr<arrow::io::RandomAccessFile> make_byte_source(
    std::shared_ptr<const ByteFile> file) {
  return std::make_shared<ByteSource>(std::move(file));
}

}  // namespace sullae::data
