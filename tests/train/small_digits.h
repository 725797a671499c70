// A small set of drawn digits, and a model of it in a repository.
#pragma once

#include <filesystem>

#include "support/idx_files.h"
#include "support/ranks.h"
#include "train/trainer.h"

namespace sullae::testing {

/// Trains on digits in `data` and exports to `repository` under the name "digits".
inline void export_small_digits(const std::filesystem::path& data,
                                const std::filesystem::path& repository) {
  std::filesystem::create_directories(data);
  write_small_mnist(data, 1000, 200);
  const auto& recipe = train::find_recipe("mnist");
  auto options = recipe.defaults();
  options.data = data;
  options.epochs = 2;
  options.batch_size = 20;
  options.configuration = "data = '" + data.string() + "'\nseed = 1\n";
  options.export_dir = repository;
  options.export_name = "digits";
  run_ranks({.size = 1},
            [&](World& world) { train::train(recipe, train::checked_options(options, 1), world); });
}

}  // namespace sullae::testing
