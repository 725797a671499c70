// Which columns of a table are the label and the text.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sullae/data/dataset.h"

namespace sullae::data {

struct Columns {
  bool header = false;  ///< the first row names columns
  std::size_t count = 0;
  std::size_t label = 0;
  std::vector<std::size_t> texts;
};

/// From the first row. `label_first` says where the label is when nothing names it. Throws InputError,
/// which starts with `where`.
Columns choose_columns(const std::vector<std::string>& first_row, const DatasetOptions& options,
                       bool label_first, const std::string& where);

}  // namespace sullae::data
