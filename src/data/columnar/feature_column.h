// A column's cells as features of samples.
#pragma once

#include <arrow/type_fwd.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/table/typed_column.h"
#include "sullae/data/example.h"

namespace sullae::data {

/// A column, or a member of one that is a structure, named "column.member".
struct Leaf {
  std::string name;
  std::vector<int> path;  ///< the number of the field, and of the member in it …
  std::shared_ptr<arrow::DataType> type;
};
/// Those of all fields, in their order. Throws DamagedRecord where two have one name.
std::vector<Leaf> leaves_of(const arrow::Schema& schema);

/// What its cells become: whole numbers and truth values integers, others numbers reals, texts and
/// bytes bytes; dates, times and decimals bytes, as text; lists of those, nested or not, all their
/// values; of other types nothing.
TypedColumn describe(const Leaf& leaf);

/// Any thread.
class FeatureColumn {
 public:
  virtual ~FeatureColumn() = default;
  /// Empty for a null. Throws DamagedRecord, which says why and not where, for a list with a null
  /// in it, and for numbers that are too large.
  virtual std::optional<Feature> at(std::int64_t row) const = 0;
  /// The values of all rows, or nothing where one is null, or may have several, or none. Throws as
  /// at() does.
  virtual std::optional<Feature> all() const = 0;
};
/// `path` of a Leaf, whose first number is that of the column in the batch here. Throws
/// DamagedRecord. With `is_kept`, doubles stay what they are.
std::unique_ptr<FeatureColumn> make_feature_column(const arrow::RecordBatch& batch,
                                                   const std::vector<int>& path,
                                                   bool is_kept = false);

}  // namespace sullae::data
