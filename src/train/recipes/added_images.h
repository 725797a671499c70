// Images that operators have labelled, behind those that a model was trained on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "sullae/data.h"
#include "train/task.h"

namespace sullae::train {

struct ExtendedImages {
  data::DatasetPtr dataset;
  /// How many old ones there are, and so the number of the first added one.
  std::size_t old = 0;
  /// Numbers of the old ones.
  std::vector<std::vector<std::size_t>> old_by_class;
};

class AddedImages {
 public:
  /// `added` are JPEG files; they and `description` must outlive this object, but not what behind()
  /// returns. Throws InputError for a label that the model does not know.
  AddedImages(const std::vector<AddedSample>& added, const ModelDescription& description);

  /// Images of `old` to draw from, and the added ones behind them. Of the old ones 50,000 at most
  /// are taken, since to know an image's class is to read it, and none that is among the added
  /// ones; damaged records go to `damage`. Throws InputError for a class that the model does not
  /// know.
  ExtendedImages behind(const data::DatasetPtr& old, data::DamageLog& damage,
                        std::uint64_t seed) const;

 private:
  std::unordered_set<std::string_view> files_;
  std::int64_t classes_;
  data::DatasetPtr dataset_;
};

}  // namespace sullae::train
