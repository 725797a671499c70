// The flags of `sullae train`.
#pragma once

#include <CLI/CLI.hpp>

#include "train/task.h"

namespace sullae::cli {

/// Adds a flag for each setting of `options`, and for each of the recipe's own, which show their
/// present values as defaults.
void declare_train_options(CLI::App& app, train::RecipeOptions& options,
                           const train::Recipe& recipe);

}  // namespace sullae::cli
