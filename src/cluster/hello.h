// How a worker finds the launcher of its job's attempt, and what the two say first.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace sullae::cluster {

/// coordinator.json in the attempt's folder.
struct LauncherAddress {
  std::string host;
  int port = 0;
  std::string secret;  ///< by which the launcher knows workers
  std::string answer;  ///< and they it

  void write(const std::filesystem::path& attempt) const;
  /// Empty where it is not there yet.
  static std::optional<LauncherAddress> read(const std::filesystem::path& attempt);
};

/// What a worker says first, as a line of JSON; the answer is a line: "ok" and what
/// coordinator.json has as answer, or why not.
struct Hello {
  std::string version;
  std::string secret;
  std::string node;
  std::string engine_id;
  int slots = 1;
  std::string problem;  ///< why it cannot work; empty for none

  std::string to_json() const;
  static Hello from_json(const std::string& text);
};

}  // namespace sullae::cluster
