#include "data/record/output_file.h"

#include "sullae/error.h"

namespace sullae::data {
namespace {

constexpr std::size_t kBuffer = std::size_t{1} << 18;
constexpr int kGzip = 15 + 16;  // the largest window, with a gzip header
constexpr int kMemoryLevel = 8;

}  // namespace

OutputFile::OutputFile(const std::filesystem::path& file)
    : file_(file), compressed_(file.extension() == ".gz") {
  buffer_.reserve(kBuffer);
  if (compressed_ && ::deflateInit2(&stream_, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kGzip,
                                    kMemoryLevel, Z_DEFAULT_STRATEGY) != Z_OK)
    throw Error(file.string() + ": zlib cannot be started");
}

OutputFile::~OutputFile() {
  if (compressed_) ::deflateEnd(&stream_);
}

void OutputFile::write(std::string_view bytes) {
  if (compressed_) {
    deflate(bytes, Z_NO_FLUSH);
    return;
  }
  if (bytes.size() > kBuffer - buffer_.size()) flush_buffer();
  if (bytes.size() >= kBuffer) {
    file_.write(bytes.data(), bytes.size());
  } else {
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  }
}

void OutputFile::commit() {
  if (compressed_) deflate({}, Z_FINISH);
  flush_buffer();
  file_.commit();
}

void OutputFile::flush_buffer() {
  if (!buffer_.empty()) file_.write(buffer_.data(), buffer_.size());
  buffer_.clear();
}

void OutputFile::deflate(std::string_view bytes, int flush) {
  std::vector<char> output(kBuffer);
  stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream_.avail_in = static_cast<uInt>(bytes.size());
  do {
    stream_.next_out = reinterpret_cast<Bytef*>(output.data());
    stream_.avail_out = static_cast<uInt>(output.size());
    ::deflate(&stream_, flush);
    file_.write(output.data(), output.size() - stream_.avail_out);
  } while (stream_.avail_out == 0);
}

}  // namespace sullae::data
