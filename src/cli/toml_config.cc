#include "cli/toml_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <sstream>

#include "base/file.h"
#include "base/number.h"
#include "base/toml.h"
#include "sullae/error.h"

namespace sullae::cli {
namespace {

std::string place(const std::string& file, const toml::node& node) {
  return fmt::format("{}, line {}", file, node.source().begin.line);
}

// As the flag's value would be typed; empty where it is no single value.
std::optional<std::string> text_of(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* number = node.as_integer()) return fmt::format("{}", number->get());
  if (const auto* number = node.as_floating_point()) return fmt::format("{}", number->get());
  if (const auto* truth = node.as_boolean()) return truth->get() ? "true" : "false";
  return std::nullopt;
}

// Flags such as --no-overlap are options without a value.
bool is_flag(const CLI::Option& option) { return option.get_expected_min() == 0; }

bool is_hidden(const CLI::Option& option) { return option.get_group().empty(); }

// Of the numbers that flags take TOML has not all: no ".5", "007", or one of 64 bits without a
// sign.
bool is_number(const std::string& text) {
  const auto number = number_in<double>(text);
  if (!number || !std::isfinite(*number)) return false;
  try {
    return toml::parse("x = " + text)["x"].is_number();
  } catch (const toml::parse_error&) {
    return false;
  }
}

// Numbers as they were typed, all else as text.
std::string line_of(const std::string& key, const std::string& value) {
  if (is_number(value)) return fmt::format("{} = {}\n", key, value);
  std::ostringstream line;
  line << toml::table{{key, value}} << '\n';
  return line.str();
}

void set(CLI::App& app, const std::string& key, const toml::node& node, const std::string& file) {
  CLI::Option* const option = app.get_option_no_throw("--" + key);
  if (option == nullptr || key == "config" || key == "help") {
    throw InputError(fmt::format("{}: '{}' is not an option of {}; see --help", place(file, node),
                                 key, app.get_name()));
  }
  if (option->count() > 0) return;  // the command line counts more
  const auto text = text_of(node);
  if (!text) {
    throw InputError(fmt::format("{}: {} is neither a text nor a number nor true or false",
                                 place(file, node), key));
  }
  if (is_flag(*option) && !node.is_boolean())
    throw InputError(
        fmt::format("{}: {} = {}, expected true or false", place(file, node), key, *text));
  try {
    option->add_result(is_flag(*option) ? option->get_flag_value("--" + key, *text) : *text);
    option->run_callback();
  } catch (const CLI::ParseError& error) {
    throw InputError(fmt::format("{}: {}", place(file, node), error.what()));
  }
}

}  // namespace

void apply_toml(CLI::App& app, const std::string& file) {
  constexpr std::size_t kMostBytes = std::size_t{1} << 20;
  const std::string text = read_file(file, kMostBytes);
  toml::table table;
  try {
    table = toml::parse(text, file);
  } catch (const toml::parse_error& error) {
    const auto line = error.source().begin.line;
    throw InputError(fmt::format("{}{}: {}", file, line > 0 ? fmt::format(", line {}", line) : "",
                                 error.description()));
  }
  for (const auto& [key, node] : table) set(app, std::string(key.str()), node, file);
}

std::string to_toml(const CLI::App& app, const std::vector<std::string>& left_out) {
  std::string toml;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_lnames().empty() || is_hidden(*option)) continue;
    const std::string& key = option->get_lnames().front();
    if (key == "help" || std::ranges::find(left_out, key) != left_out.end()) continue;
    std::string value = option->count() > 0 ? option->results().back() : option->get_default_str();
    if (is_flag(*option)) {
      toml += fmt::format("{} = {}\n", key, value);
      continue;
    }
    if (value.size() >= 2 && value.front() == '"' && value.back() == '"')
      value = value.substr(1, value.size() - 2);  // as CLI11 shows defaults that are paths
    if (!value.empty()) toml += line_of(key, value);
  }
  return toml;
}

}  // namespace sullae::cli
