// Texts without classes, to learn to write from.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "train/options.h"

namespace sullae::train {

struct Documents {
  std::vector<std::string> train;
  std::vector<std::string> test;
  std::string description;
  std::set<std::uint64_t> damaged = {};  ///< see data::DamageLog::records()
};

/// The texts of --data and --test-data: files of plain text, each of which is one, or those of a
/// data set of any other format. Which are for testing is as for open_splits(); where none are, the
/// last tenth of all the text is, from a word on. Throws InputError.
Documents read_documents(const RecipeOptions& options);

}  // namespace sullae::train
