#include "data/table/labels.h"

#include <fmt/format.h>

#include "base/number.h"
#include "sullae/error.h"

namespace sullae::data {

bool LabelOrder::operator()(const std::string& a, const std::string& b) const {
  const auto x = number_in<long long>(a);
  const auto y = number_in<long long>(b);
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
