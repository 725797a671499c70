// A model in a repository, as `sullae train --export` writes it.
#pragma once

#include <filesystem>
#include <string>

#include "support/ranks.h"
#include "train/trainer.h"

namespace sullae::testing {

/// Trains `recipe` on `options.data` and exports to `repository` under `name`.
inline void export_model(const std::string& recipe, train::RecipeOptions options,
                         const std::filesystem::path& repository, const std::string& name) {
  options.configuration = "data = '" + options.data.string() + "'\nseed = 1\n";
  options.export_dir = repository;
  options.export_name = name;
  run_ranks({.size = 1},
            [&](World& world) { train::train(train::find_recipe(recipe), options, world); });
}

}  // namespace sullae::testing
