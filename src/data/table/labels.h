// The classes that a table's column of labels names.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <vector>

namespace sullae::data {

/// Numbers as numbers: 2 before 10, and before what is none.
struct LabelOrder {
  bool operator()(const std::string& a, const std::string& b) const;
};
using Labels = std::set<std::string, LabelOrder>;

/// Throws InputError where there are so many for `rows` that they are texts: who trained on those
/// would train on nonsense without a word.
void check_labels(const std::string& file, const std::vector<std::string>& labels,
                  std::size_t rows);

}  // namespace sullae::data
