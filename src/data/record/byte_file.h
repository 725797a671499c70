// Files that are read at any place, from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

namespace sullae::data {

class ByteFile {
 public:
  /// Opens a file where it is; a gzip-compressed one (by its first bytes) is decompressed into
  /// memory. Throws InputError.
  static std::shared_ptr<const ByteFile> open(const std::filesystem::path& file);

  virtual ~ByteFile() = default;
  /// For messages.
  const std::string& name() const { return name_; }
  /// Of the content, decompressed.
  std::uint64_t size() const { return size_; }
  /// Reads exactly `bytes`. Throws InputError where the file ends before, or cannot be read.
  virtual void read(std::uint64_t offset, void* into, std::size_t bytes) const = 0;
  std::string read(std::uint64_t offset, std::size_t bytes) const;
  /// Up to `bytes` from the start.
  std::string first(std::size_t bytes) const;

 protected:
  ByteFile(std::string name, std::uint64_t size) : name_(std::move(name)), size_(size) {}

 private:
  std::string name_;
  std::uint64_t size_;
};

}  // namespace sullae::data
