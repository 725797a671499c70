#include "train/options.h"

#include <fmt/format.h>

#include "sullae/error.h"

namespace sullae::train {
namespace {

void require(bool holds, const std::string& message) {
  if (!holds) throw InputError(message);
}

}  // namespace

std::filesystem::path where_present(const std::filesystem::path& directory) {
  return std::filesystem::is_directory(directory) ? directory : std::filesystem::path();
}

void check_options(const TrainOptions& options, int world_size) {
  require(options.epochs >= 1, fmt::format("--epochs {}: expected 1 or more", options.epochs));
  require(options.batch_size >= 1,
          fmt::format("--batch-size {}: expected 1 or more", options.batch_size));
  require(options.batch_size % world_size == 0,
          fmt::format("--batch-size {}: the samples of a step are divided equally among the {} "
                      "ranks: expected a multiple of {}",
                      options.batch_size, world_size, world_size));
  require(options.lr > 0, fmt::format("--lr {}: expected more than 0", options.lr));
  require(options.keep_checkpoints >= 1,
          fmt::format("--keep-checkpoints {}: expected 1 or more", options.keep_checkpoints));
  require(!options.resume || !options.checkpoint_dir.empty(),
          "--resume: needs --checkpoint-dir, where the checkpoints are");
}

}  // namespace sullae::train
