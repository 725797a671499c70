// A model in a repository, as `sullae train --export` writes it.
#pragma once

#include <filesystem>
#include <string>

#include "support/ranks.h"
#include "train/trainer.h"

namespace sullae::testing {

/// What `sullae train` would train it with.
inline train::RecipeOptions defaults_of(const std::string& name) {
  const auto& recipe = train::find_recipe(name);
  auto options = recipe.defaults();
  for (const auto& extra : recipe.extra_options()) options.extra[extra.flag] = extra.value;
  return options;
}

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
