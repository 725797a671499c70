// What recipes.cc registers: a line a recipe.
#pragma once

#include <memory>

#include "train/task.h"

namespace sullae::train {

std::unique_ptr<Recipe> make_mnist_recipe();
std::unique_ptr<Recipe> make_mlp_recipe();
std::unique_ptr<Recipe> make_resnet_recipe(int depth);

/// What tells the recipes for texts apart.
struct TextRecipeOptions {
  const char* name;
  const char* summary;
  const char* usual_place;  ///< empty for none
  bool lstm;                ///< else a bag of words
};
std::unique_ptr<Recipe> make_text_recipe(const TextRecipeOptions& options);

}  // namespace sullae::train
