// The frame of a TFRecord's data, and the index beside a file.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include "data/record/byte_file.h"
#include "sullae/data/tfrecord.h"

namespace sullae::data {

inline constexpr std::size_t kTFRecordHeader = 12;  // length and its CRC
inline constexpr std::size_t kTFRecordFooter = 4;   // CRC of the data

template <class Integer>
Integer little_endian(const char* bytes) {
  static_assert(std::endian::native == std::endian::little);
  Integer value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

/// Of the file `path`.
inline std::filesystem::path tfrecord_index_of(std::filesystem::path path) {
  path += ".idx";
  return path;
}

/// The length in a header; empty where its CRC does not fit.
inline std::optional<std::uint64_t> tfrecord_length(const char* header) {
  if (masked_crc32c({header, 8}) != little_endian<std::uint32_t>(header + 8)) return std::nullopt;
  return little_endian<std::uint64_t>(header);
}

/// Whether a file that begins so is one of records; never in a build without them, which then goes
/// by names.
bool begins_as_tfrecord(std::string_view start);

/// Whether the CRC after `size` bytes of data fits.
inline bool tfrecord_data_fits(const char* data, std::size_t size) {
  return masked_crc32c({data, size}) == little_endian<std::uint32_t>(data + size);
}

/// A record with its frame.
struct TFRecordPlace {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

/// Where the records of a file are: from the index beside it where there is a fitting one, else
/// from the headers, whose data is not read. `problem` says what ended the search early, if
/// anything did.
struct TFRecordIndex {
  std::vector<TFRecordPlace> records;
  std::string problem;
};
TFRecordIndex index_tfrecords(const ByteFile& file, const std::filesystem::path& path);

}  // namespace sullae::data
