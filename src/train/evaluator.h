// Tests the checkpoints that others write.
#pragma once

#include "sullae/sullae.h"
#include "sullae/train/observer.h"
#include "train/options.h"
#include "train/task.h"

namespace sullae::train {

/// Tests each new checkpoint in TrainOptions::checkpoint_dir, or, where there are several, the
/// newest, until one ends the training that `options` describe, and shows and reports it as train()
/// does its epochs. Throws InputError without that folder, and for checkpoints of another model;
/// TimeoutError where none comes within SULLAE_EVALUATOR_TIMEOUT (a day).
Report evaluate_checkpoints(const Recipe& recipe, const RecipeOptions& options, const World& world);

}  // namespace sullae::train
