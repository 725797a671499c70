#include "train/nsmc.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>

#include "sullae/data.h"

namespace sullae::train {
namespace {

constexpr int kClasses = 2;
constexpr double kEmbeddingDeviation = 0.1;

struct NetOptions {
  std::int64_t words = 0;
  std::int64_t embedding_size = 300;
  std::int64_t hidden_size = 300;
  double dropout = 0.3;
};

struct NetImpl : torch::nn::Module {
  explicit NetImpl(const NetOptions& options)
      : embedding(register_module("embedding", torch::nn::Embedding(make_embedding(options)))),
        lstm(register_module("lstm", torch::nn::LSTM(torch::nn::LSTMOptions(options.embedding_size,
                                                                            options.hidden_size)))),
        output(register_module("output", torch::nn::Linear(options.hidden_size, kClasses))),
        dropout(options.dropout) {}

  // Of the words' vectors only those in the batch get a gradient.
  static torch::nn::EmbeddingOptions make_embedding(const NetOptions& options) {
    return torch::nn::EmbeddingOptions(options.words, options.embedding_size)
        .sparse(true)
        ._weight(torch::randn({options.words, options.embedding_size}) * kEmbeddingDeviation);
  }

  // `words` holds the batch's words packed by time step: those of the longest text first. ->
  // [batch, classes]
  torch::Tensor forward(const torch::Tensor& words, const torch::Tensor& batch_sizes) {
    auto vectors = torch::dropout(embedding(words), dropout, is_training());
    const torch::nn::utils::rnn::PackedSequence packed(vectors, batch_sizes);
    const auto last_hidden = std::get<0>(std::get<1>(lstm->forward_with_packed_input(packed)));
    return output(torch::dropout(last_hidden.squeeze(0), dropout, is_training()));
  }

  torch::nn::Embedding embedding;
  torch::nn::LSTM lstm;
  torch::nn::Linear output;
  double dropout;
};
TORCH_MODULE(Net);

struct Texts {
  std::vector<std::vector<std::int64_t>> words;
  std::vector<std::int64_t> labels;
};

Texts encode(const std::vector<data::LabelledText>& rows, const data::Vocabulary& vocabulary,
             std::size_t max_words) {
  Texts texts;
  for (const auto& row : rows) {
    texts.words.push_back(vocabulary.encode(row.text, max_words));
    texts.labels.push_back(row.label);
  }
  return texts;
}

class NsmcTask final : public Task {
 public:
  explicit NsmcTask(const TrainOptions& options) {
    if (options.data.empty()) {
      throw InputError(
          "nsmc: no data: give --data DIR, a folder with ratings_train.txt and ratings_test.txt");
    }
    data::DamageLog damage(/*skip=*/false);
    const auto train = data::read_texts(*data::open_dataset({options.data / "ratings_train.txt"}), damage);
    const auto test = data::read_texts(*data::open_dataset({options.data / "ratings_test.txt"}), damage);
    const auto vocabulary =
        data::Vocabulary::build(train, static_cast<std::size_t>(options.extra.at("min-count")));
    const auto max_words = static_cast<std::size_t>(options.extra.at("max-words"));
    train_ = encode(train, vocabulary, max_words);
    test_ = encode(test, vocabulary, max_words);
    net_ = Net(
        NetOptions{.words = static_cast<std::int64_t>(vocabulary.size()),
                   .embedding_size = static_cast<std::int64_t>(options.extra.at("embedding-size")),
                   .hidden_size = static_cast<std::int64_t>(options.extra.at("hidden-size")),
                   .dropout = options.extra.at("dropout")});
    description_ = fmt::format("NSMC from {}, {} words", options.data.string(), vocabulary.size());
  }

  torch::nn::Module& model() override { return *net_; }
  std::size_t size(Split split) const override { return of(split).labels.size(); }
  std::string data_description() const override { return description_; }

  BatchResult run(Split split, std::span<const std::size_t> samples) override {
    const Texts& texts = of(split);
    std::vector<std::size_t> order(samples.begin(), samples.end());
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
    const auto targets = torch::tensor(labels);
    const auto scores = net_->forward(torch::tensor(words), torch::tensor(batch_sizes));
    return {torch::nn::functional::cross_entropy(scores, targets),
            scores.argmax(1).eq(targets).sum().item<std::int64_t>()};
  }

 private:
  const Texts& of(Split split) const { return split == Split::train ? train_ : test_; }

  Net net_{nullptr};
  Texts train_;
  Texts test_;
  std::string description_;
};

class NsmcRecipe final : public Recipe {
 public:
  std::string name() const override { return "nsmc"; }
  std::string summary() const override {
    return "Korean movie reviews, good or bad: word embedding and LSTM";
  }
  TrainOptions defaults() const override {
    TrainOptions options;
    options.epochs = 2;
    options.batch_size = 64;
    options.lr = 1e-3;
    options.data = where_present("../shared/data/nsmc");
    return options;
  }
  std::vector<ExtraOption> extra_options() const override {
    return {{"embedding-size", 300, "Numbers in a word's vector"},
            {"hidden-size", 300, "Cells of the LSTM"},
            {"dropout", 0.3, "Part of the vectors and of the last state dropped in training"},
            {"min-count", 1, "Words that occur less often in the training texts are unknown"},
            {"max-words", 64, "Words of a text beyond this many are ignored"}};
  }
  std::unique_ptr<Task> make(const TrainOptions& options) const override {
    return std::make_unique<NsmcTask>(options);
  }
};

}  // namespace

std::unique_ptr<Recipe> make_nsmc_recipe() { return std::make_unique<NsmcRecipe>(); }

}  // namespace sullae::train
