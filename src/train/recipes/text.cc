// Labelled texts: Korean movie reviews, news items, whatever has a text and a class.
#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "sullae/data.h"
#include "train/division.h"
#include "train/recipes/recipes.h"
#include "train/recipes/splits.h"
#include "train/recipes/text_network.h"

namespace sullae::train {
namespace {

// Texts of both splits before they are numbers.
struct Source {
  std::vector<data::LabelledText> train;
  std::vector<data::LabelledText> test;
  std::vector<std::string> classes;
  std::string description;
  std::set<std::uint64_t> damaged;
};

Source read_source(const RecipeOptions& options, const std::vector<std::string>& classes = {}) {
  data::DamageLog damage(options.skip_damaged);
  const Splits splits = open_splits(options, damage, classes);
  Source source{.train = data::read_texts(*splits.train, damage),
                .test = data::read_texts(*splits.test, damage),
                .classes = splits.train->classes(),
                .description = splits.description,
                .damaged = damage.records()};
  if (source.train.empty()) throw InputError(splits.description + ": holds no texts");
  return source;
}

void check_labels(const Source& source, const ModelDescription& description) {
  const auto classes = description.integer("classes");
  for (const auto* const texts : {&source.train, &source.test}) {
    for (const auto& text : *texts) check_label(text.label, classes, source.description);
  }
}

// What is known of the model before there is one.
ModelDescription describe(const Recipe& recipe, const TextNetwork& network,
                          const RecipeOptions& options, const Source& source) {
  ModelDescription description{.recipe = recipe.name(),
                               .input = InputKind::text,
                               .numbers = options.extra,
                               .classes = source.classes};
  network.learn(source.train, description);
  auto& numbers = description.numbers;
  numbers["words"] = static_cast<double>(make_text_encoder(description).size());
  const int largest = std::ranges::max_element(source.train, {}, &data::LabelledText::label)->label;
  numbers["classes"] =
      static_cast<double>(std::max({static_cast<int>(source.classes.size()), largest + 1, 2}));
  return description;
}

class TextTask final : public Task {
 public:
  TextTask(const TextNetwork& network, ModelDescription description, const Source& source,
           std::shared_ptr<torch::nn::Module> model)
      : network_(network),
        model_description_(std::move(description)),
        model_(std::move(model)),
        damaged_(source.damaged) {
    const auto encoder = make_text_encoder(model_description_);
    train_ = encode(encoder, source.train);
    test_ = encode(encoder, source.test);
    description_ = fmt::format("texts from {}, {}, {} classes", source.description,
                               encoder.summary(), model_description_.integer("classes"));
  }

  std::shared_ptr<torch::nn::Module> model() override { return model_; }
  const ModelDescription& description() const override { return model_description_; }
  std::size_t size(Split split) const override { return of(split).labels.size(); }
  std::string data_description() const override { return description_; }
  std::size_t damaged() const override { return damaged_.size(); }
  std::set<std::uint64_t> damaged_records() const override { return damaged_; }

  std::unique_ptr<BatchStream> batches(Split split, BatchPlan plan, std::size_t) override {
    const EncodedTexts& texts = of(split);
    return assemble(std::move(plan), [&texts, this](const std::vector<std::size_t>& samples) {
      return network_.batch(texts, samples);
    });
  }

 private:
  const EncodedTexts& of(Split split) const { return split == Split::train ? train_ : test_; }

  static EncodedTexts encode(const data::TextEncoder& encoder,
                             const std::vector<data::LabelledText>& rows) {
    EncodedTexts texts;
    for (const auto& row : rows) {
      texts.words.push_back(encoder.encode(row.text));
      texts.labels.push_back(row.label);
    }
    return texts;
  }

  const TextNetwork& network_;
  ModelDescription model_description_;
  std::shared_ptr<torch::nn::Module> model_;
  std::set<std::uint64_t> damaged_;
  EncodedTexts train_;
  EncodedTexts test_;
  std::string description_;
};

class TextRecipe final : public Recipe {
 public:
  explicit TextRecipe(TextRecipeOptions options) : options_(std::move(options)) {}
  std::string name() const override { return options_.name; }
  std::string summary() const override { return options_.summary; }
  std::vector<std::string> left_out_options() const override {
    return {"data-workers", "prefetch", "cache-megabytes"};
  }

  RecipeOptions defaults() const override {
    RecipeOptions options;
    options.batch_size = 64;
    network().set_defaults(options);
    options.data = *options_.usual_place == '\0' ? "" : where_present(options_.usual_place);
    return options;
  }

  std::vector<ExtraOption> extra_options() const override { return network().extra_options(); }

  std::shared_ptr<torch::nn::Module> model(const ModelDescription& description) const override {
    return network().model({}, description);
  }

  std::unique_ptr<Task> make(const RecipeOptions& options, const World& world,
                             const ModelDescription* known) const override {
    if (options.shard != "none" && network().has_sparse_gradients())
      throw InputError(
          fmt::format("--shard {}: {} has sparse gradients, of the words of a step alone, which "
                      "are not divided "
                      "among ranks",
                      options.shard, name()));
    const Source source =
        known == nullptr ? read_source(options) : read_source(options, known->classes);
    if (known != nullptr) check_labels(source, *known);
    const auto description =
        known == nullptr ? describe(*this, network(), options, source) : *known;
    return std::make_unique<TextTask>(network(), description, source,
                                      network().model(make_division(options, world), description));
  }

  Refinement refine(const ModelDescription& description, const RecipeOptions& options,
                    const std::vector<AddedSample>& added, const World&) const override {
    Source source = read_source(options, description.classes);
    const auto classes = description.integer("classes");
    // What an operator says of a text takes the place of what was said before.
    std::unordered_set<std::string_view> replaced;
    for (const auto& sample : added) replaced.insert(sample.input);
    check_labels(source, description);
    for (auto* texts : {&source.train, &source.test})
      std::erase_if(*texts, [&](const auto& text) { return replaced.contains(text.text); });
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
    refinement.task =
        std::make_unique<TextTask>(network(), description, source, model(description));
    return refinement;
  }

 private:
  const TextNetwork& network() const { return *options_.network; }

  TextRecipeOptions options_;
};

}  // namespace

std::unique_ptr<Recipe> make_text_recipe(TextRecipeOptions options) {
  return std::make_unique<TextRecipe>(std::move(options));
}

}  // namespace sullae::train
