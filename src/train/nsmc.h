#pragma once

#include <memory>

#include "train/task.h"

namespace sullae::train {

/// Korean sentiment: words, an embedding, an LSTM.
std::unique_ptr<Recipe> make_nsmc_recipe();

}  // namespace sullae::train
