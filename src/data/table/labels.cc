#include "data/table/labels.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>

#include "sullae/error.h"

namespace sullae::data {

bool LabelOrder::operator()(const std::string& a, const std::string& b) const {
  const auto number = [](const std::string& text) {
    long long value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc{} && end == text.data() + text.size() ? std::optional(value)
                                                                    : std::nullopt;
  };
  const auto x = number(a);
  const auto y = number(b);
  if (x && y && *x != *y) return *x < *y;
  return x.has_value() != y.has_value() ? x.has_value() : a < b;
}

void check_labels(const std::string& file, const std::vector<std::string>& labels,
                  std::size_t rows) {
  constexpr std::size_t kMany = 100;
  if (labels.size() <= kMany || 2 * labels.size() < rows) return;
  throw InputError(fmt::format(
      "{}: {} different labels in {} rows, such as '{}': expected classes; say which column is "
      "the label with --label-column",
      file, labels.size(), rows, labels.front()));
}

}  // namespace sullae::data
