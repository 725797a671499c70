// What the columns of a file with names and types are to samples.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "data/table/typed_column.h"
#include "sullae/data/dataset.h"

namespace sullae::data {

/// Numbers of columns.
struct Roles {
  std::optional<std::size_t> label;
  std::vector<std::size_t> texts;  ///< joined to feature::kText
  /// Others that become features, and their names there.
  std::vector<std::pair<std::string, std::size_t>> features;
};

/// A table of texts has the text, the label and the kept columns, chosen as those of CSV files are.
/// One without texts has all its columns as features of their names, but for those of types that no
/// feature has, which a warning names; encoded pictures are known by the names that are usual
/// (Hugging Face's "image.bytes"). Throws InputError, which starts with `file`.
Roles choose_roles(const std::vector<TypedColumn>& columns, const DatasetOptions& options,
                   const std::string& file);

}  // namespace sullae::data
