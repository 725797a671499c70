// Values of a TOML file, with messages that say in which line what was expected.
#pragma once

#include <toml++/toml.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace sullae::serve {

/// A file and what its values must be. All functions throw InputError.
class TomlFile {
 public:
  /// What a setting does with its value.
  using Settings = std::map<std::string, std::function<void(const toml::node&)>>;

  explicit TomlFile(const std::filesystem::path& file) : name_(file.string()) {}

  toml::table parse() const;
  /// Calls each setting of `table` by its key; a key that is none is an error.
  void apply(const toml::table& table, const Settings& settings) const;

  std::int64_t integer(const toml::node& node, std::int64_t least, std::int64_t most) const;
  double number(const toml::node& node) const;
  /// From `least` to `most`.
  double number(const toml::node& node, double least, double most) const;
  bool truth(const toml::node& node) const;
  std::string text(const toml::node& node) const;
  std::string one_of(const toml::node& node, const std::vector<std::string>& values) const;
  [[noreturn]] void fail(const toml::node& node, const std::string& message) const;

 private:
  std::string name_;
};

}  // namespace sullae::serve
