// Networks over words: an LSTM, and a bag of them.
#include <algorithm>
#include <functional>

#include "train/models/text.h"
#include "train/recipes/text_network.h"

namespace sullae::train {
namespace {

void learn_words(const std::vector<data::LabelledText>& texts, ModelDescription& description) {
  const auto least = static_cast<std::size_t>(description.number("min-count"));
  if (description.number("normalise") == 0) {
    description.words = data::Vocabulary::build(texts, least).words();
    return;
  }
  auto normalised = texts;
  for (auto& text : normalised) text.text = data::normalise_english(text.text);
  description.words = data::Vocabulary::build(normalised, least).words();
}

std::vector<ExtraOption> word_options(TextKind kind) {
  const bool english = kind == TextKind::english;
  return {{"min-count", english ? 2.0 : 1.0,
           "Words that occur less often in the training texts are unknown",
           ExtraOption::Takes::count_or_0},
          {"normalise", english ? 1.0 : 0.0,
           "1: English words in lower case, punctuation apart; 0: cut at white space alone",
           ExtraOption::Takes::truth}};
}

TextModelOptions model_options(const ModelDescription& description) {
  return {.words = description.integer("words"),
          .word_pairs = description.integer("word-pairs"),
          .classes = description.integer("classes"),
          .embedding_size = description.integer("embedding-size"),
          .dropout = description.number("dropout")};
}

class LstmNetwork final : public TextNetwork {
 public:
  explicit LstmNetwork(TextKind kind) : kind_(kind) {}

  void set_defaults(RecipeOptions& options) const override {
    options.epochs = 2;
    options.lr = 1e-3;
  }

  std::vector<ExtraOption> extra_options() const override {
    auto options = word_options(kind_);
    options.insert(
        options.end(),
        {{"embedding-size", 300, "Numbers in a word's vector"},
         {"dropout", 0.3, "Part of the vectors and of the last state dropped in training",
          ExtraOption::Takes::part},
         {"max-words", 64, "Words of a text beyond this many are ignored"},
         {"hidden-size", 300, "Cells of each layer of the LSTM"},
         {"layers", 1, "Layers of the LSTM"}});
    return options;
  }

  void learn(const std::vector<data::LabelledText>& texts,
             ModelDescription& description) const override {
    description.numbers.try_emplace("word-pairs", 0);
    learn_words(texts, description);
  }

  std::shared_ptr<torch::nn::Module> model(const Division&,
                                           const ModelDescription& description) const override {
    TextModelOptions options = model_options(description);
    options.hidden_size = description.integer("hidden-size");
    options.layers = description.integer("layers");
    return std::make_shared<TextLstmImpl>(options);
  }

  // The words of all texts by time step, those of the longest text first; see TextLstmImpl.
  Batch batch(const EncodedTexts& texts, const std::vector<std::size_t>& samples) const override {
    std::vector<std::size_t> order = samples;
    std::ranges::stable_sort(order, std::greater{},
                             [&](std::size_t i) { return texts.words[i].size(); });
    std::vector<std::int64_t> words;
    std::vector<std::int64_t> batch_sizes;
    std::vector<std::int64_t> labels;
    for (std::size_t step = 0; step < texts.words[order[0]].size(); ++step) {
      std::int64_t active = 0;
      for (const std::size_t i : order) {
        if (texts.words[i].size() <= step) break;
        words.push_back(texts.words[i][step]);
        ++active;
      }
      batch_sizes.push_back(active);
    }
    for (const std::size_t i : order) labels.push_back(texts.labels[i]);
    return {{torch::tensor(words), torch::tensor(batch_sizes)}, torch::tensor(labels)};
  }

  bool has_sparse_gradients() const override { return true; }

 private:
  TextKind kind_;
};

class BagNetwork final : public TextNetwork {
 public:
  void set_defaults(RecipeOptions& options) const override {
    options.epochs = 10;
    options.lr = 2e-3;
    options.lr_schedule = "linear";
  }

  std::vector<ExtraOption> extra_options() const override {
    auto options = word_options(TextKind::english);
    options.insert(
        options.end(),
        {{"embedding-size", 100, "Numbers in a word's vector"},
         {"dropout", 0.5, "Part of the mean vector dropped in training", ExtraOption::Takes::part},
         {"max-words", 256, "Words of a text beyond this many are ignored"},
         {"word-pairs", 200000, "Vectors for pairs of neighbouring words; 0 for none",
          ExtraOption::Takes::count_or_0}});
    return options;
  }

  void learn(const std::vector<data::LabelledText>& texts,
             ModelDescription& description) const override {
    learn_words(texts, description);
  }

  std::shared_ptr<torch::nn::Module> model(const Division&,
                                           const ModelDescription& description) const override {
    return std::make_shared<TextBagImpl>(model_options(description));
  }

  // One text after the other; see TextBagImpl.
  Batch batch(const EncodedTexts& texts, const std::vector<std::size_t>& samples) const override {
    std::vector<std::int64_t> words;
    std::vector<std::int64_t> starts;
    std::vector<std::int64_t> labels;
    for (const std::size_t i : samples) {
      starts.push_back(static_cast<std::int64_t>(words.size()));
      words.insert(words.end(), texts.words[i].begin(), texts.words[i].end());
      labels.push_back(texts.labels[i]);
    }
    return {{torch::tensor(words), torch::tensor(starts)}, torch::tensor(labels)};
  }

  bool has_sparse_gradients() const override { return true; }
};

}  // namespace

std::unique_ptr<TextNetwork> make_lstm_network(TextKind kind) {
  return std::make_unique<LstmNetwork>(kind);
}
std::unique_ptr<TextNetwork> make_bag_network() { return std::make_unique<BagNetwork>(); }

}  // namespace sullae::train
