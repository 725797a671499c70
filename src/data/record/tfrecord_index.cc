#include <fmt/format.h>

#include <charconv>
#include <fstream>
#include <system_error>

#include "data/record/tfrecord_frame.h"
#include "storage/storage.h"

namespace sullae::data {
namespace {

// The format of DALI's tfrecord2idx: a line "offset size" a record, frame included.
std::optional<std::vector<TFRecordPlace>> read_index(const std::filesystem::path& path,
                                                     std::uint64_t file_size) {
  if (storage::is_remote(path)) return std::nullopt;
  const auto index_path = tfrecord_index_of(path);
  std::error_code error;
  const auto index_time = std::filesystem::last_write_time(index_path, error);
  if (error || index_time < std::filesystem::last_write_time(path, error) || error)
    return std::nullopt;
  std::ifstream stream(index_path);
  std::vector<TFRecordPlace> records;
  std::uint64_t end = 0;
  for (TFRecordPlace place; stream >> place.offset >> place.bytes;) {
    if (place.offset != end || place.bytes < kTFRecordHeader + kTFRecordFooter) return std::nullopt;
    end = place.offset + place.bytes;
    records.push_back(place);
  }
  // One of another version of the file is no use.
  if (!stream.eof() || end != file_size) return std::nullopt;
  return records;
}

}  // namespace

TFRecordIndex index_tfrecords(const ByteFile& file, const std::filesystem::path& path) {
  TFRecordIndex index;
  if (auto records = read_index(path, file.size())) {
    index.records = std::move(*records);
    return index;
  }
  std::uint64_t offset = 0;
  const auto place = [&] {
    return fmt::format("{}, record {}, offset {}", file.name(), index.records.size(), offset);
  };
  while (offset < file.size()) {
    const std::uint64_t left = file.size() - offset;
    if (left < kTFRecordHeader + kTFRecordFooter) {
      index.problem = fmt::format("{}: is truncated: {} bytes are left, expected at least {}",
                                  place(), left, kTFRecordHeader + kTFRecordFooter);
      return index;
    }
    char header[kTFRecordHeader];
    file.read(offset, header, sizeof header);
    const auto length = tfrecord_length(header);
    if (!length) {
      index.problem = fmt::format(
          "{}: the checksum of its length does not fit, so that no record after it can be found",
          place());
      return index;
    }
    if (*length > left - kTFRecordHeader - kTFRecordFooter) {
      index.problem = fmt::format("{}: is truncated: {} bytes of data expected, {} are left",
                                  place(), *length, left - kTFRecordHeader);
      return index;
    }
    const std::uint64_t bytes = kTFRecordHeader + *length + kTFRecordFooter;
    index.records.push_back({offset, bytes});
    offset += bytes;
  }
  return index;
}

}  // namespace sullae::data
