#pragma once

#include <memory>

#include "train/task.h"

namespace sullae::train {

/// Handwritten digits with a small convolutional network.
std::unique_ptr<Recipe> make_mnist_recipe();

}  // namespace sullae::train
