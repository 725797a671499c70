// What is in files, to know whether it is what it was.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

namespace sullae::pipeline {

/// Hashes of files' contents, by which files that have the same size and time as before are not read again. Used by one thread.
class Contents {
 public:
  /// Takes up what `cache` has; a damaged one is none.
  explicit Contents(std::filesystem::path cache);
  /// Throws Error.
  void save() const;

  /// Of a file, or of all in a folder, by their names in it; nothing where there is nothing. Of files in stores (s3://, webhdfs://) it is
  /// their versions; of a topic of Kafka its address. Throws Error.
  std::optional<std::string> of(const std::filesystem::path& path);

 private:
  struct Known {
    std::uint64_t bytes = 0;
    std::int64_t time = 0;  // of the last change, in nanoseconds
    std::string hash;
  };
  std::string of_file(const std::filesystem::path& file);

  std::filesystem::path cache_;
  std::map<std::string, Known> known_;
};

}  // namespace sullae::pipeline
