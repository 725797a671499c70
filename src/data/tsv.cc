#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "data/input_file.h"
#include "data/utf8.h"
#include "sullae/data.h"

namespace sullae::data {
namespace {

constexpr std::size_t kColumns = 3;

LabelledText parse_row(std::string_view row, const std::string& where, int classes) {
  if (const auto at = find_invalid_utf8(row); at != std::string_view::npos) {
    throw InputError(fmt::format("{}: byte {} (0x{:02x}) is not UTF-8", where, at + 1,
                                 static_cast<unsigned char>(row[at])));
  }
  const auto columns = 1 + static_cast<std::size_t>(std::ranges::count(row, '\t'));
  if (columns != kColumns) {
    throw InputError(
        fmt::format("{}: has {} column{}, expected {}: id, document and label, separated by tabs",
                    where, columns, columns == 1 ? "" : "s", kColumns));
  }
  const auto first = row.find('\t');
  const auto second = row.find('\t', first + 1);
  const auto label = row.substr(second + 1);
  LabelledText result{.text = std::string(row.substr(first + 1, second - first - 1))};
  const auto [end, error] =
      std::from_chars(label.data(), label.data() + label.size(), result.label);
  if (error != std::errc{} || end != label.data() + label.size() || result.label < 0 ||
      result.label >= classes) {
    throw InputError(
        fmt::format("{}: the label is '{}', expected 0 to {}", where, label, classes - 1));
  }
  return result;
}

}  // namespace

std::vector<LabelledText> read_labelled_tsv(const std::filesystem::path& file, int classes) {
  const auto path = find_file(file);
  const std::string content = read_whole(path);
  std::vector<LabelledText> rows;
  std::string_view rest = content;
  for (std::size_t line = 1; !rest.empty(); ++line) {
    const auto end = rest.find('\n');
    std::string_view row = rest.substr(0, end);
    rest = end == std::string_view::npos ? std::string_view{} : rest.substr(end + 1);
    if (row.ends_with('\r')) row.remove_suffix(1);
    const std::string where = fmt::format("{}, line {}", path.string(), line);
    if (line == 1) {
      if (!row.starts_with("id\t")) {
        throw InputError(
            fmt::format("{}: expected the header id, document, label, separated by tabs", where));
      }
    } else if (!row.empty()) {
      rows.push_back(parse_row(row, where, classes));
    }
  }
  if (rows.empty()) throw InputError(fmt::format("{}: has no rows", path.string()));
  return rows;
}

}  // namespace sullae::data
