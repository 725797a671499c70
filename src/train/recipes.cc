#include "train/mnist.h"
#include "train/nsmc.h"
#include "train/task.h"

namespace sullae::train {

const std::vector<std::unique_ptr<Recipe>>& recipes() {
  static const auto all = [] {
    std::vector<std::unique_ptr<Recipe>> list;
    list.push_back(make_mnist_recipe());
    list.push_back(make_nsmc_recipe());
    return list;
  }();
  return all;
}

}  // namespace sullae::train
