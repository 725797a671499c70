// Values of a TOML file, with messages that say in which line what was expected.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/toml.h"

namespace sullae {

/// A file and what its values must be. All functions throw InputError. Used by one thread.
class TomlFile {
 public:
  /// What is done with a value.
  using Setting = std::function<void(const toml::node&)>;
  using Settings = std::map<std::string, Setting>;

  explicit TomlFile(const std::filesystem::path& file) : name_(file.string()) {}

  static constexpr std::size_t kMostBytes = std::size_t{1} << 20;
  toml::table parse() const;
  /// Of its text, wherever that is from.
  toml::table parse(const std::string& text) const;
  /// Calls each setting of `table` by its key; a key that is none is an error.
  void apply(const toml::table& table, const Settings& settings) const;

  std::int64_t integer(const toml::node& node, std::int64_t least, std::int64_t most) const;
  double number(const toml::node& node) const;
  /// From `least` to `most`.
  double number(const toml::node& node, double least, double most) const;
  bool truth(const toml::node& node) const;
  std::string text(const toml::node& node) const;
  std::vector<std::string> texts(const toml::node& node) const;
  /// Of a table of texts.
  std::map<std::string, std::string> pairs(const toml::node& node) const;
  std::string one_of(const toml::node& node, const std::vector<std::string>& values) const;

  /// Settings that put their value into `target`, which must outlive them, as this object must.
  template <class T>
  Setting integer_into(T& target, std::int64_t least, std::int64_t most) const {
    return [this, &target, least, most](const toml::node& node) {
      target = T(integer(node, least, most));
    };
  }
  Setting number_into(double& target, double least, double most) const {
    return [this, &target, least, most](const toml::node& node) {
      target = number(node, least, most);
    };
  }
  Setting truth_into(bool& target) const {
    return [this, &target](const toml::node& node) {
      target = truth(node);
    };
  }
  template <class T>
  Setting text_into(T& target) const {
    return [this, &target](const toml::node& node) {
      target = text(node);
    };
  }

  Setting texts_into(std::vector<std::string>& target) const {
    return [this, &target](const toml::node& node) {
      target = texts(node);
    };
  }
  Setting pairs_into(std::map<std::string, std::string>& target) const {
    return [this, &target](const toml::node& node) {
      target = pairs(node);
    };
  }

  /// Throws for a key of `table` that is none of `known`.
  void expect_keys(const toml::table& table, const std::vector<std::string>& known) const;

  [[noreturn]] void fail(const toml::node& node, const std::string& message) const;
  /// Of the setting that is being applied, which the message names.
  [[noreturn]] void expect(const toml::node& node, const std::string& what) const;

 private:
  std::string name_;
  mutable std::string setting_;  // that is being applied
};

}  // namespace sullae
