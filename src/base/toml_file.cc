#include "base/toml_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "base/file.h"
#include "base/nearest.h"
#include "sullae/error.h"

namespace sullae {
namespace {

// As it stands in a file, where it is no list or table.
std::string text_of(const toml::node& node) {
  if (node.is_array()) return "a list";
  if (node.is_table()) return "a table";
  std::ostringstream text;
  node.visit([&](const auto& value) { text << value; });
  return text.str();
}

}  // namespace

toml::table TomlFile::parse() const { return parse(read_file(name_, kMostBytes)); }

toml::table TomlFile::parse(const std::string& text) const {
  try {
    return toml::parse(text, name_);
  } catch (const toml::parse_error& error) {
    throw InputError(
        fmt::format("{}, line {}: {}", name_, error.source().begin.line, error.description()));
  }
}

void TomlFile::apply(const toml::table& table, const Settings& settings) const {
  std::vector<std::string> known;
  for (const auto& setting : settings) known.push_back(setting.first);
  expect_keys(table, known);
  for (const auto& [key, node] : table) {
    const std::string outer = std::exchange(setting_, std::string(key.str()));
    settings.at(setting_)(node);
    setting_ = outer;
  }
}

void TomlFile::expect_keys(const toml::table& table, const std::vector<std::string>& known) const {
  for (const auto& [key, node] : table) {
    if (std::ranges::find(known, key.str()) != known.end()) continue;
    const auto meant = nearest(known, std::string(key.str()));
    fail(node,
         meant.empty()
             ? fmt::format("'{}' is no setting; there are: {}", key.str(), fmt::join(known, ", "))
             : fmt::format("'{}' is no setting (did you mean {}?)", key.str(), meant));
  }
}

void TomlFile::fail(const toml::node& node, const std::string& message) const {
  throw InputError(fmt::format("{}, line {}: {}", name_, node.source().begin.line, message));
}

void TomlFile::expect(const toml::node& node, const std::string& what) const {
  fail(node, fmt::format("{}{}expected {}", setting_, setting_.empty() ? "" : ": ", what));
}

std::int64_t TomlFile::integer(const toml::node& node, std::int64_t least,
                               std::int64_t most) const {
  const auto* value = node.as_integer();
  if (value == nullptr || value->get() < least || value->get() > most)
    expect(node, fmt::format("a whole number from {} to {}, got {}", least, most, text_of(node)));
  return value->get();
}

double TomlFile::number(const toml::node& node) const {
  const auto value = node.value<double>();
  if (!value) expect(node, fmt::format("a number, got {}", text_of(node)));
  return *value;
}

double TomlFile::number(const toml::node& node, double least, double most) const {
  const double value = number(node);
  if (!(value >= least && value <= most))
    expect(node, fmt::format("a number from {} to {}, got {}", least, most, value));
  return value;
}

bool TomlFile::truth(const toml::node& node) const {
  const auto* value = node.as_boolean();
  if (value == nullptr) expect(node, fmt::format("true or false, got {}", text_of(node)));
  return value->get();
}

std::string TomlFile::text(const toml::node& node) const {
  const auto* value = node.as_string();
  if (value == nullptr) expect(node, fmt::format("a text in quotes, got {}", text_of(node)));
  return value->get();
}

std::vector<std::string> TomlFile::texts(const toml::node& node) const {
  const auto* const array = node.as_array();
  if (array == nullptr) expect(node, fmt::format("a list of texts, got {}", text_of(node)));
  std::vector<std::string> found;
  for (const toml::node& one : *array) found.push_back(text(one));
  return found;
}

std::map<std::string, std::string> TomlFile::pairs(const toml::node& node) const {
  const auto* const table = node.as_table();
  if (table == nullptr) expect(node, fmt::format("a table of texts, got {}", text_of(node)));
  std::map<std::string, std::string> found;
  for (const auto& [key, value] : *table) found[std::string(key.str())] = text(value);
  return found;
}

std::string TomlFile::one_of(const toml::node& node, const std::vector<std::string>& values) const {
  auto value = text(node);
  for (const auto& good : values) {
    if (value == good) return value;
  }
  expect(node, fmt::format("one of {}, got '{}'", fmt::join(values, ", "), value));
}

}  // namespace sullae
