// What all ranks of a training have to be given alike.
#pragma once

#include <cstddef>

#include "sullae/sullae.h"
#include "train/options.h"

namespace sullae::train {

/// Before anything else: ranks that step otherwise would wait for each other, or train models that
/// differ. Throws MismatchError on every rank, with the first option that is another on some.
/// Collective.
void check_same_options(const TrainOptions& options, const World& world);
/// With those that only the recipe knows.
void check_same_options(const RecipeOptions& options, const World& world);

/// The same of so many samples to train and to test on.
void check_same_samples(std::size_t train, std::size_t test, const World& world);

}  // namespace sullae::train
