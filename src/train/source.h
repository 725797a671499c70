// Training on messages of Kafka: which ones, so that all ranks have the same, and a resumed run has
// those that it had.
#pragma once

#include <string>

#include "sullae/sullae.h"
#include "train/options.h"

namespace sullae::train {

/// options.source as options.data has it, with offsets: what the newest checkpoint of `recipe` was
/// trained on with --resume, where there is one; else what the topic has now, of options.group what
/// it has not done yet. Collective. Throws InputError, also where there is no message, and Error.
std::string settle_source(const RecipeOptions& options, const std::string& recipe,
                          const World& world);

/// The group has done what `data` names. Does nothing without a group. Collective.
void finish_source(const RecipeOptions& options, const World& world);

}  // namespace sullae::train
