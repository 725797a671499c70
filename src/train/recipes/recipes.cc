#include "train/recipes/recipes.h"

#include <fmt/format.h>

#include "sullae/error.h"

namespace sullae::train {

const std::vector<std::unique_ptr<Recipe>>& recipes() {
  static const auto all = [] {
    std::vector<std::unique_ptr<Recipe>> list;
    list.push_back(make_mnist_recipe());
    list.push_back(make_mlp_recipe());
    list.push_back(
        make_text_recipe({.name = "nsmc",
                          .summary = "Korean movie reviews, good or bad: word embedding and LSTM",
                          .usual_place = "../shared/data/nsmc",
                          .network = make_lstm_network(TextKind::any)}));
    list.push_back(make_text_recipe({.name = "lstm",
                                     .summary = "any labelled texts: word embedding and LSTM",
                                     .usual_place = "",
                                     .network = make_lstm_network(TextKind::english)}));
    list.push_back(make_text_recipe(
        {.name = "text",
         .summary = "any labelled texts: the mean of word and word pair vectors, as fastText",
         .usual_place = "",
         .network = make_bag_network()}));
    list.push_back(make_text_recipe(
        {.name = "transformer",
         .summary = "any labelled texts, in any language: pieces of words and a transformer",
         .usual_place = "",
         .network = make_transformer_network()}));
    list.push_back(make_gpt_recipe());
    for (const int depth : {18, 34, 50, 101}) list.push_back(make_resnet_recipe(depth));
    return list;
  }();
  return all;
}

const Recipe& find_recipe(const std::string& name) {
  for (const auto& recipe : recipes()) {
    if (recipe->name() == name) return *recipe;
  }
  throw InputError(fmt::format("there is no recipe '{}'", name));
}

}  // namespace sullae::train
