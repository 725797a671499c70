// Trains a recipe's model on all ranks of a world.
#pragma once

#include <optional>

#include "sullae/sullae.h"
#include "sullae/train/observer.h"
#include "train/options.h"
#include "train/task.h"

namespace sullae::train {

/// Collective. The result does not depend on the number of ranks, up to rounding and dropout: a
/// step covers the same samples. Rank 0 shows progress, and writes checkpoints and the report.
/// Throws InputError for options or data that cannot be.
Report train(const Recipe& recipe, const RecipeOptions& options, const World& world);
/// The same in an elastic job, whose worlds this process joins once the data is ready. Empty where
/// it was asked to go before the end.
std::optional<Report> train_elastic(const Recipe& recipe, const RecipeOptions& options);

}  // namespace sullae::train
