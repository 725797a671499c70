// TFRecord files (tensorflow/core/lib/io/record_writer.h): records with checksums, one after the
// other.
//
//   length        u64, little-endian
//   CRC of length u32, masked CRC-32C
//   data          `length` bytes
//   CRC of data   u32
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace sullae::data {

/// Writes a TFRecord file, gzip-compressed where its name ends in ".gz", and beside it, as
/// "NAME.idx", the index that DALI's tfrecord2idx makes (not for compressed ones). Both appear when
/// close() is called, whole, and not at all without it. Used by one thread.
class TFRecordWriter {
 public:
  explicit TFRecordWriter(const std::filesystem::path& file);
  ~TFRecordWriter();
  TFRecordWriter(const TFRecordWriter&) = delete;
  TFRecordWriter& operator=(const TFRecordWriter&) = delete;
  /// Throws Error that names the file, e.g. for a full disk.
  void write(std::string_view record);
  void close();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// Reads the records of a TFRecord file in sequence, compressed or not, and checks their checksums.
/// Used by one thread.
class TFRecordReader {
 public:
  explicit TFRecordReader(const std::filesystem::path& file);
  ~TFRecordReader();
  TFRecordReader(const TFRecordReader&) = delete;
  TFRecordReader& operator=(const TFRecordReader&) = delete;
  /// The next record, valid until the next call; empty at the end of the file. Throws DamagedRecord
  /// for one whose checksum does not fit, after which the next can be read, and InputError where
  /// the file is truncated or a length is damaged, after which none can.
  std::optional<std::string_view> next();
  /// Of the record that next() returned or threw for last.
  std::uint64_t offset() const;
  std::size_t record() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// A record as it stands in a file: for files that others read while they are being written.
std::string frame_record(std::string_view record);

/// The masked CRC-32C (Castagnoli, as in RFC 3720) of the format.
std::uint32_t masked_crc32c(std::string_view data);

}  // namespace sullae::data
