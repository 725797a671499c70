// What recipes.cc registers: a line a recipe.
#pragma once

#include <memory>

#include "train/recipes/text_network.h"
#include "train/task.h"

namespace sullae::train {

std::unique_ptr<Recipe> make_mnist_recipe();
std::unique_ptr<Recipe> make_mlp_recipe();
std::unique_ptr<Recipe> make_gpt_recipe();
std::unique_ptr<Recipe> make_resnet_recipe(int depth);

struct TextRecipeOptions {
  const char* name;
  const char* summary;
  const char* usual_place;  ///< empty for none
  std::unique_ptr<TextNetwork> network;
};
std::unique_ptr<Recipe> make_text_recipe(TextRecipeOptions options);

}  // namespace sullae::train
