// Which data a checkpoint's model was trained on.
#pragma once

#include "sullae/torch/checkpoint.h"
#include "train/options.h"

namespace sullae::train {

/// Puts the run's configuration (TOML) where trained_on() finds it, with the folder that its paths
/// start from.
void add_configuration(CheckpointMetadata& metadata, const std::string& configuration);

/// What add_configuration() has put there; empty for nothing.
std::string configuration_in(const CheckpointMetadata& metadata);

/// The options that say what is read (--data, --test-data, --format, …, --seed), as they were when
/// the model of the checkpoint was trained; the others are at their defaults. Paths are absolute;
/// `data` is empty where the checkpoint does not say. Throws InputError, with `file`, for a
/// configuration that cannot be read.
RecipeOptions trained_on(const CheckpointMetadata& metadata, const std::string& file);

}  // namespace sullae::train
