// A round of online learning as every rank needs it.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "train/description.h"
#include "train/fine_tune.h"
#include "train/options.h"

namespace sullae::online {

/// All but the weights, which rank 0 reads and the others get from it.
struct Job {
  train::ModelDescription description;
  /// Which old data is read.
  train::RecipeOptions data;
  train::FineTuneOptions training;
  std::vector<train::AddedSample> added;
  /// Of `added`, those before it were trained in an earlier round.
  std::size_t first_changed = 0;
};

/// For the other ranks, and what they read of it.
std::string to_text(const Job& job);
Job job_from(const std::string& text);

}  // namespace sullae::online
