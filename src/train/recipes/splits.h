// Which files are for training and which for testing.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "sullae/data.h"
#include "train/options.h"

namespace sullae::train {

struct Splits {
  data::DatasetPtr train;
  data::DatasetPtr test;
  std::string description;
};

/// Opens --data and --test-data. Of a folder, what is called "…train…" is for training and what is
/// called "…test…" or "…val…" for testing. Where nothing is for testing, a tenth of the samples is, the
/// same for the same seed. The training set's classes are `classes`, or, where that is empty, those that are
/// found; the test set's are the training set's. Throws InputError.
Splits open_splits(const RecipeOptions& options, data::DamageLog& damage,
                   const std::vector<std::string>& classes = {});

}  // namespace sullae::train
