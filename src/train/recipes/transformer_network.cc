// A transformer over pieces of words.
#include <algorithm>
#include <string_view>

#include "sullae/data/pieces.h"
#include "train/models/transformer.h"
#include "train/recipes/stack_options.h"
#include "train/recipes/text_network.h"

namespace sullae::train {
namespace {

class TransformerNetwork final : public TextNetwork {
 public:
  void set_defaults(RecipeOptions& options) const override {
    options.epochs = 3;
    options.optimizer = "adamw";
    options.lr = 1e-3;
    options.lr_schedule = "linear";
    options.warmup_epochs = 0.2;
    options.weight_decay = 0.01;
    options.clip_norm = 1;
  }

  std::vector<ExtraOption> extra_options() const override {
    auto options = stack_options({.layers = 2});
    options.push_back({"pieces", 8000, "Pieces of words that are learnt from the training texts"});
    options.push_back({"max-words", 64, "Pieces of a text beyond this many are ignored"});
    return options;
  }

  void learn(const std::vector<data::LabelledText>& texts,
             ModelDescription& description) const override {
    std::vector<std::string_view> all;
    for (const auto& text : texts) all.push_back(text.text);
    description.words = learn_pieces(all, description).list();
  }

  std::shared_ptr<torch::nn::Module> model(const Division& division,
                                           const ModelDescription& description) const override {
    return std::make_shared<TransformerClassifierImpl>(
        TransformerOptions{.pieces = description.integer("words"),
                           .places = description.integer("max-words"),
                           .classes = description.integer("classes"),
                           .stack = stack_of(description),
                           .division = division});
  }

  // With padding behind the shorter ones.
  Batch batch(const EncodedTexts& texts, const std::vector<std::size_t>& samples) const override {
    std::size_t longest = 1;
    for (const std::size_t i : samples) longest = std::max(longest, texts.words[i].size());
    auto words = torch::zeros(
        {static_cast<std::int64_t>(samples.size()), static_cast<std::int64_t>(longest)},
        torch::kInt64);
    auto* row = words.data_ptr<std::int64_t>();
    std::vector<std::int64_t> labels;
    for (const std::size_t i : samples) {
      std::ranges::copy(texts.words[i], row);
      row += longest;
      labels.push_back(texts.labels[i]);
    }
    return {{words}, torch::tensor(labels)};
  }

  bool has_sparse_gradients() const override { return false; }
};

}  // namespace

std::unique_ptr<TextNetwork> make_transformer_network() {
  return std::make_unique<TransformerNetwork>();
}

}  // namespace sullae::train
