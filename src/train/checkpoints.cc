#include "train/checkpoints.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"

namespace sullae::train {

Checkpoints::Checkpoints(std::filesystem::path directory, std::string name, int keep)
    : directory_(std::move(directory)), name_(std::move(name)), keep_(keep) {
  std::error_code error;
  std::filesystem::create_directories(directory_, error);
  if (error)
    throw Error(fmt::format("--checkpoint-dir {}: {}", directory_.string(), error.message()));
}

std::filesystem::path Checkpoints::save(int epoch, const torch::nn::Module& module,
                                        const torch::optim::Optimizer& optimizer,
                                        CheckpointMetadata metadata) {
  // Fixed width, so that names sort as epochs do.
  const auto file = directory_ / fmt::format("{}-epoch-{:06}.ckpt", name_, epoch);
  metadata["epoch"] = epoch;
  save_checkpoint(file, module, &optimizer, metadata);
  const auto files = list();
  for (std::size_t i = static_cast<std::size_t>(keep_); i < files.size(); ++i) {
    std::error_code error;
    std::filesystem::remove(files[i], error);
    if (error) log::warning("{} cannot be removed: {}", files[i].string(), error.message());
  }
  return file;
}

std::vector<std::filesystem::path> Checkpoints::list() const {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(directory_)) {
    const auto file = entry.path().filename().string();
    if (file.starts_with(name_ + "-epoch-") && file.ends_with(".ckpt"))
      files.push_back(entry.path());
  }
  std::ranges::sort(files, std::greater{});
  return files;
}

std::optional<CheckpointMetadata> Checkpoints::load_newest(
    torch::nn::Module& module, torch::optim::Optimizer& optimizer) const {
  const auto files = list();
  if (files.empty()) return std::nullopt;
  for (const auto& file : files) {
    try {
      return load_checkpoint(file, module, &optimizer);
    } catch (const CheckpointError& error) {
      log::warning("{}; trying the one before", error.what());
    }
  }
  throw InputError(fmt::format("--resume: none of the {} checkpoints in {} is whole", files.size(),
                               directory_.string()));
}

}  // namespace sullae::train
