// What training runs have left, weight by weight.
#pragma once

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <filesystem>
#include <string>
#include <vector>

#include "sullae/torch/checkpoint.h"
#include "train/description.h"
#include "train/task.h"

namespace sullae::testing {

/// Of a --checkpoint-dir with one of a step; empty where there is none.
inline std::filesystem::path newest_checkpoint(const std::filesystem::path& folder) {
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const auto name = entry.path().filename().string();
    if (name.find("-step-") != std::string::npos && name.ends_with(".ckpt")) return entry.path();
  }
  return {};
}

inline std::vector<torch::Tensor> weights_of(const std::filesystem::path& file) {
  const auto description = train::description_of(read_checkpoint_metadata(file), file);
  const auto model = train::find_recipe(description.recipe).model(description);
  load_checkpoint(file, *model);
  return model->parameters();
}

/// Both runs ended with the same step, and equal weights to the bit.
inline void expect_same_bits(const std::filesystem::path& one, const std::filesystem::path& other) {
  EXPECT_EQ(newest_checkpoint(one).filename(), newest_checkpoint(other).filename());
  const auto a = weights_of(newest_checkpoint(one));
  const auto b = weights_of(newest_checkpoint(other));
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i)
    EXPECT_TRUE(torch::equal(a[i], b[i])) << "parameter " << i;
}

}  // namespace sullae::testing
