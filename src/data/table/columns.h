// Which columns of a table are the label and the text.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sullae/data/dataset.h"

namespace sullae::data {

struct Columns {
  bool header = false;  ///< the first row names columns
  std::size_t count = 0;
  std::optional<std::size_t> label;  ///< none only where there need be none
  std::vector<std::size_t> texts;
  std::vector<std::size_t> kept;  ///< in the order of the options
};

/// From the first row. `label_first` says where the label is when nothing names it. Throws
/// InputError, which starts with `where`.
Columns choose_columns(const std::vector<std::string>& first_row, const DatasetOptions& options,
                       bool label_first, const std::string& where);

/// Whether a column is called as those of labels, or of texts, usually are.
bool is_label_name(const std::string& name);
bool is_text_name(const std::string& name);

/// By name where the first row has names, or by number from 1. Throws InputError, which starts with
/// `where`.
std::size_t find_column(const std::string& name, const std::vector<std::string>& first_row,
                        bool header, const std::string& where);

}  // namespace sullae::data
