// TensorBoard's event files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

namespace sullae::train {

/// Appends scalars to a new file in a folder, where TensorBoard finds them at once. Used by one thread.
class EventFile {
 public:
  /// Makes the folder. Throws Error.
  explicit EventFile(const std::filesystem::path& folder);
  void write(std::int64_t step, const std::map<std::string, double>& scalars);

 private:
  void append(const std::string& event);

  std::filesystem::path file_;
  std::ofstream stream_;
};

}  // namespace sullae::train
