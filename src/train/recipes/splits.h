// Which files are for training and which for testing.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "sullae/data.h"
#include "train/options.h"

namespace sullae::train {

/// Files for training, and for testing where some are.
struct DataPaths {
  std::vector<std::filesystem::path> train;
  std::vector<std::filesystem::path> test;
  /// Of where the data is, and of how many files are neither.
  std::string description;
};

/// What --data and --test-data stand for: of a folder, what has a word that begins or ends with
/// "train" in its name is for training, and what has one with "test", or "val", "valid…", "eval…"
/// or "t10k", for testing; where nothing is called train, all else, or all of it where nothing is
/// for testing either. Throws InputError.
DataPaths find_paths(const RecipeOptions& options);
/// How they are opened.
data::DatasetOptions reading_of(const RecipeOptions& options, data::DamageLog& damage);

struct Splits {
  data::DatasetPtr train;
  data::DatasetPtr test;
  std::string description;
};

/// Opens what find_paths() finds. Where nothing is for testing, a tenth of the samples is, the same
/// for the same seed. The training set's classes are `classes`, or, where that is empty, those that
/// are found; the test set's are the training set's. Throws InputError.
Splits open_splits(const RecipeOptions& options, data::DamageLog& damage,
                   const std::vector<std::string>& classes = {});

}  // namespace sullae::train
