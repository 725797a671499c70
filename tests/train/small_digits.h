// A small set of drawn digits, and a model of it in a repository.
#pragma once

#include <filesystem>

#include "support/idx_files.h"
#include "train/export_model.h"

namespace sullae::testing {

/// Trains on digits in `data` and exports to `repository` under the name "digits".
inline void export_small_digits(const std::filesystem::path& data,
                                const std::filesystem::path& repository) {
  std::filesystem::create_directories(data);
  write_small_mnist(data, 1000, 200);
  auto options = train::find_recipe("mnist").defaults();
  options.data = data;
  options.epochs = 2;
  options.batch_size = 20;
  export_model("mnist", options, repository, "digits");
}

}  // namespace sullae::testing
