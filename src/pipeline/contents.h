// What is in files, to know whether it is what it was.
#pragma once

#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>

namespace sullae::pipeline {

/// Of whoever reads long files, and is to end. No failure of a step, and so no Error.
class Interrupted : public std::exception {
 public:
  const char* what() const noexcept override { return "interrupted"; }
};

/// Hashes of files' contents, by which files that have the same size and time as before are not
/// read again. Used by one thread.
class Contents {
 public:
  /// Takes up what `cache` has; a damaged one is none. `is_to_end` is asked every few MiB.
  Contents(std::filesystem::path cache, std::function<bool()> is_to_end);
  /// Throws Error.
  void save() const;

  /// Of a file, or of all in a folder, by their names in it; nothing where there is nothing. Of
  /// files in stores (s3://, webhdfs://) it is their versions; of a topic of Kafka its address. In
  /// a folder a link to nothing is where it points, and what has gone while it was read is not
  /// there. Throws Error, also for what is no regular file, and Interrupted where it is to end.
  std::optional<std::string> of(const std::filesystem::path& path);

 private:
  struct Known {
    std::uint64_t bytes = 0;
    std::int64_t time = 0;  // of the last change, in nanoseconds
    std::string hash;
  };
  std::optional<std::string> of_file(const std::filesystem::path& file);
  std::optional<std::string> hash_of(const std::filesystem::path& file);
  void ask(std::uint64_t bytes);

  std::filesystem::path cache_;
  std::function<bool()> is_to_end_;
  std::uint64_t unasked_ = 0;  // bytes since it was asked
  std::map<std::string, Known> known_;
};

}  // namespace sullae::pipeline
