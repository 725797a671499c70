// Labelled texts: Korean movie reviews, news items, whatever has a text and a class.
#include "train/models/text.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <string_view>
#include <unordered_set>

#include "sullae/data.h"
#include "train/recipes/recipes.h"
#include "train/recipes/splits.h"

namespace sullae::train {
namespace {

struct Texts {
  std::vector<std::vector<std::int64_t>> words;
  std::vector<std::int64_t> labels;
};

// The words of all texts by time step, those of the longest text first; see TextLstmImpl.
Batch pack(const Texts& texts, const std::vector<std::size_t>& samples) {
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

// One text after the other; see TextBagImpl.
Batch join(const Texts& texts, const std::vector<std::size_t>& samples) {
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

// Texts of both splits before they are numbers.
struct Source {
  std::vector<data::LabelledText> train;
  std::vector<data::LabelledText> test;
  std::vector<std::string> classes;
  std::string description;
  std::size_t damaged = 0;
};

Source read_source(const RecipeOptions& options, const std::vector<std::string>& classes = {}) {
  data::DamageLog damage(options.skip_damaged);
  const Splits splits = open_splits(options, damage, classes);
  Source source{.train = data::read_texts(*splits.train, damage),
                .test = data::read_texts(*splits.test, damage),
                .classes = splits.train->classes(),
                .description = splits.description,
                .damaged = damage.count()};
  if (source.train.empty()) throw InputError(splits.description + ": holds no texts");
  return source;
}

data::Vocabulary build_vocabulary(std::vector<data::LabelledText> texts,
                                  const ModelDescription& description) {
  if (description.number("normalise") != 0) {
    for (auto& text : texts) text.text = data::normalise_english(text.text);
  }
  return data::Vocabulary::build(texts, static_cast<std::size_t>(description.number("min-count")));
}

// What is known of the model before there is one.
ModelDescription describe(const Recipe& recipe, const RecipeOptions& options,
                          const Source& source) {
  ModelDescription description{.recipe = recipe.name(),
                               .input = InputKind::text,
                               .numbers = options.extra,
                               .classes = source.classes};
  auto& numbers = description.numbers;
  numbers.try_emplace("word-pairs", 0);
  description.words = build_vocabulary(source.train, description).words();
  numbers["words"] = static_cast<double>(make_text_encoder(description).size());
  const int largest = std::ranges::max_element(source.train, {}, &data::LabelledText::label)->label;
  numbers["classes"] =
      static_cast<double>(std::max({static_cast<int>(source.classes.size()), largest + 1, 2}));
  return description;
}

class TextTask final : public Task {
 public:
  TextTask(const Recipe& recipe, bool lstm, ModelDescription description, const Source& source)
      : lstm_(lstm),
        model_description_(std::move(description)),
        model_(recipe.model(model_description_)),
        damaged_(source.damaged) {
    const auto encoder = make_text_encoder(model_description_);
    train_ = encode(encoder, source.train);
    test_ = encode(encoder, source.test);
    description_ = fmt::format("texts from {}, {} words, {} classes", source.description,
                               encoder.vocabulary().size(), model_description_.integer("classes"));
  }

  std::shared_ptr<torch::nn::Module> model() override { return model_; }
  const ModelDescription& description() const override { return model_description_; }
  std::size_t size(Split split) const override { return of(split).labels.size(); }
  std::string data_description() const override { return description_; }
  std::size_t damaged() const override { return damaged_; }

  std::unique_ptr<BatchStream> batches(Split split, BatchPlan plan, std::size_t) override {
    const Texts& texts = of(split);
    return assemble(std::move(plan), [&texts, this](const std::vector<std::size_t>& samples) {
      return lstm_ ? pack(texts, samples) : join(texts, samples);
    });
  }

 private:
  const Texts& of(Split split) const { return split == Split::train ? train_ : test_; }

  static Texts encode(const data::TextEncoder& encoder,
                      const std::vector<data::LabelledText>& rows) {
    Texts texts;
    for (const auto& row : rows) {
      texts.words.push_back(encoder.encode(row.text));
      texts.labels.push_back(row.label);
    }
    return texts;
  }

  bool lstm_;
  ModelDescription model_description_;
  std::shared_ptr<torch::nn::Module> model_;
  std::size_t damaged_;
  Texts train_;
  Texts test_;
  std::string description_;
};

class TextRecipe final : public Recipe {
 public:
  explicit TextRecipe(const TextRecipeOptions& options) : options_(options) {}
  std::string name() const override { return options_.name; }
  std::string summary() const override { return options_.summary; }

  RecipeOptions defaults() const override {
    RecipeOptions options;
    options.epochs = options_.lstm ? 2 : 10;
    options.batch_size = 64;
    options.lr = options_.lstm ? 1e-3 : 2e-3;
    options.lr_schedule = options_.lstm ? "constant" : "linear";
    options.data = *options_.usual_place == '\0' ? "" : where_present(options_.usual_place);
    return options;
  }

  std::vector<ExtraOption> extra_options() const override {
    const bool korean = *options_.usual_place != '\0';
    std::vector<ExtraOption> options = {
        {"embedding-size", options_.lstm ? 300.0 : 100.0, "Numbers in a word's vector"},
        {"dropout", options_.lstm ? 0.3 : 0.5,
         "Part of the vectors and of the last state dropped in training"},
        {"min-count", korean ? 1.0 : 2.0,
         "Words that occur less often in the training texts are unknown"},
        {"max-words", options_.lstm ? 64.0 : 256.0, "Words of a text beyond this many are ignored"},
        {"normalise", korean ? 0.0 : 1.0,
         "1: English words in lower case, punctuation apart; 0: cut at white space alone"}};
    if (options_.lstm) {
      options.push_back({"hidden-size", 300, "Cells of each layer of the LSTM"});
      options.push_back({"layers", 1, "Layers of the LSTM"});
    } else {
      options.push_back(
          {"word-pairs", 200000, "Vectors for pairs of neighbouring words; 0 for none"});
    }
    return options;
  }

  std::shared_ptr<torch::nn::Module> model(const ModelDescription& description) const override {
    TextModelOptions model{.words = description.integer("words"),
                           .word_pairs = description.integer("word-pairs"),
                           .classes = description.integer("classes"),
                           .embedding_size = description.integer("embedding-size"),
                           .dropout = description.number("dropout")};
    if (!options_.lstm) return std::make_shared<TextBagImpl>(model);
    model.hidden_size = description.integer("hidden-size");
    model.layers = description.integer("layers");
    return std::make_shared<TextLstmImpl>(model);
  }

  std::unique_ptr<Task> make(const RecipeOptions& options, const World&) const override {
    if (options.shard != "none")
      throw InputError(
          fmt::format("--shard {}: {} has sparse gradients, of the words of a step alone, which "
                      "are not divided "
                      "among ranks",
                      options.shard, name()));
    const Source source = read_source(options);
    return std::make_unique<TextTask>(*this, options_.lstm, describe(*this, options, source),
                                      source);
  }

  Refinement refine(const ModelDescription& description, const RecipeOptions& options,
                    const std::vector<AddedSample>& added, const World&) const override {
    Source source = read_source(options, description.classes);
    const auto classes = description.integer("classes");
    // What an operator says of a text takes the place of what was said before.
    std::unordered_set<std::string_view> replaced;
    for (const auto& sample : added) replaced.insert(sample.input);
    for (auto* texts : {&source.train, &source.test}) {
      for (const auto& text : *texts) check_label(text.label, classes, source.description);
      std::erase_if(*texts, [&](const auto& text) { return replaced.contains(text.text); });
    }
    Refinement refinement;
    refinement.old_by_class.resize(static_cast<std::size_t>(classes));
    for (std::size_t i = 0; i < source.train.size(); ++i)
      refinement.old_by_class[static_cast<std::size_t>(source.train[i].label)].push_back(i);
    refinement.first_added = source.train.size();
    refinement.old_test = source.test.size();
    for (const auto& sample : added) {
      const data::LabelledText text{sample.input, static_cast<int>(label_of(sample, description))};
      source.train.push_back(text);
      source.test.push_back(text);
    }
    refinement.task = std::make_unique<TextTask>(*this, options_.lstm, description, source);
    return refinement;
  }

 private:
  TextRecipeOptions options_;
};

}  // namespace

std::unique_ptr<Recipe> make_text_recipe(const TextRecipeOptions& options) {
  return std::make_unique<TextRecipe>(options);
}

}  // namespace sullae::train
