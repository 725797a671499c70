// A language model: learns to write from texts of any kind.
#include "train/models/gpt.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <set>
#include <utility>

#include "sullae/data/order.h"
#include "sullae/data/pieces.h"
#include "sullae/elastic.h"
#include "train/division.h"
#include "train/objectives/next_piece.h"
#include "train/recipes/documents.h"
#include "train/recipes/recipes.h"
#include "train/recipes/stack_options.h"

namespace sullae::train {
namespace {

using Tokens = std::vector<std::int32_t>;

// All texts, one after the other, with an end before the first and behind each.
Tokens join(const std::vector<std::string>& texts, const data::Pieces& pieces) {
  Tokens tokens = {data::Pieces::kEnd};
  for (const auto& text : texts) {
    const auto numbers = pieces.encode_lines(text);
    tokens.insert(tokens.end(), numbers.begin(), numbers.end());
    tokens.push_back(data::Pieces::kEnd);
  }
  return tokens;
}

// Samples that a rank trains with at a time: those have gradients too.
std::size_t trained_together(const RecipeOptions& options, const World& world) {
  const int ranks =
      elastic::is_elastic() ? elastic::most_ranks() : data_ranks(options, world.size());
  const int parts = ranks * std::max(options.accumulation_steps, 1);
  return static_cast<std::size_t>(std::max(scaled(options, ranks).batch_size / parts, 1));
}

// What is known of the model before there is one.
ModelDescription describe_writer(const Recipe& recipe, const RecipeOptions& options,
                                 const Documents& documents) {
  ModelDescription description{
      .recipe = recipe.name(), .input = InputKind::text, .numbers = options.extra};
  const auto pieces = learn_pieces({documents.train.begin(), documents.train.end()}, description);
  description.words = pieces.list();
  description.numbers["words"] = static_cast<double>(pieces.size());
  return description;
}

std::shared_ptr<torch::nn::Module> make_network(const Division& division,
                                                const ModelDescription& description) {
  return std::make_shared<GptImpl>(GptOptions{.pieces = description.integer("words"),
                                              .context = description.integer("context"),
                                              .stack = stack_of(description),
                                              .division = division});
}

// A text as samples of so many pieces and the next, with an end before and behind it.
std::vector<Tokens> cut_up(const std::string& text, const data::Pieces& pieces,
                           std::size_t context) {
  const Tokens all = join({text}, pieces);
  std::vector<Tokens> samples;
  for (std::size_t first = 0; first + 1 < all.size(); first += context) {
    const auto from = all.begin() + static_cast<std::ptrdiff_t>(first);
    const auto count = std::min(context + 1, all.size() - first);
    samples.emplace_back(from, from + static_cast<std::ptrdiff_t>(count));
  }
  return samples;
}

class GptTask final : public Task {
 public:
  GptTask(const Recipe& recipe, const RecipeOptions& options, const World& world,
          const ModelDescription* known)
      : test_batch_(trained_together(options, world)), seed_(options.seed) {
    const Documents documents = read_documents(options);
    damaged_ = documents.damaged;
    model_description_ = known != nullptr ? *known : describe_writer(recipe, options, documents);
    const auto pieces = data::Pieces::of_list(model_description_.words);
    model_ = make_network(make_division(options, world), model_description_);
    context_ = model_description_.integer("context");
    train_ = join(documents.train, pieces);
    test_ = join(documents.test, pieces);
    for (const auto& [tokens, what] : {std::pair{&train_, "train"}, std::pair{&test_, "test"}}) {
      // More than the ends of a text without any.
      if (tokens->size() < 3)
        throw InputError(fmt::format("{}: holds no text to {} on", options.data.string(), what));
    }
    description_ = fmt::format("text from {}, {} pieces, {} + {} in all", documents.description,
                               pieces.size(), train_.size(), test_.size());
  }

  std::shared_ptr<torch::nn::Module> model() override { return model_; }
  const ModelDescription& description() const override { return model_description_; }
  std::string data_description() const override { return description_; }
  std::size_t damaged() const override { return damaged_.size(); }
  std::set<std::uint64_t> damaged_records() const override { return damaged_; }

  std::unique_ptr<Objective> objective(double label_smoothing) const override {
    if (label_smoothing != 0)
      throw InputError(fmt::format("--label-smoothing {}: {} has none", label_smoothing,
                                   model_description_.recipe));
    return std::make_unique<NextPiece>();
  }

  std::size_t test_batch_size() const override { return test_batch_; }

  // A sample is so many pieces as the model sees, and what follows each of them.
  std::size_t size(Split split) const override { return joined_size(split) + added_.size(); }

  // Behind the others, in both splits. Returns how many samples each of `texts` is.
  std::vector<std::size_t> add(const std::vector<AddedSample>& texts) {
    const auto pieces = data::Pieces::of_list(model_description_.words);
    std::vector<std::size_t> counts;
    for (const AddedSample& text : texts) {
      auto samples = cut_up(text.input, pieces, static_cast<std::size_t>(context_));
      counts.push_back(samples.size());
      std::ranges::move(samples, std::back_inserter(added_));
    }
    return counts;
  }

  // Each epoch cuts the training text in other places, so that a piece is seen in all of them.
  std::unique_ptr<BatchStream> batches(Split split, BatchPlan plan, std::size_t epoch) override {
    const auto shift =
        split == Split::test
            ? 0
            : data::Random(seed_, epoch, 0).below(static_cast<std::uint64_t>(context_));
    return assemble(std::move(plan), [split, shift, this](const std::vector<std::size_t>& samples) {
      return batch(split, samples, static_cast<std::size_t>(shift));
    });
  }

 private:
  const Tokens& of(Split split) const { return split == Split::train ? train_ : test_; }
  // Without what was added.
  std::size_t joined_size(Split split) const {
    return (of(split).size() - 2) / static_cast<std::size_t>(context_) + 1;
  }

  // Where the text is shorter than a sample, and behind the last one for testing, is padding.
  Batch batch(Split split, const std::vector<std::size_t>& samples, std::size_t shift) const {
    const auto rows = static_cast<std::int64_t>(samples.size());
    const auto context = static_cast<std::size_t>(context_);
    const auto inputs = torch::full({rows, context_}, data::Pieces::kPadding, torch::kInt64);
    const auto next = torch::full({rows, context_}, LanguageModelling::kNoToken, torch::kInt64);
    auto* input = inputs.data_ptr<std::int64_t>();
    auto* label = next.data_ptr<std::int64_t>();
    for (const std::size_t sample : samples) {
      const std::size_t joined = joined_size(split);
      const bool is_added = sample >= joined;
      const Tokens& tokens = is_added ? added_[sample - joined] : of(split);
      const std::size_t pairs = tokens.size() - 1;  // of a piece and the next
      std::size_t first = is_added ? 0 : sample * context;
      if (shift > 0 && !is_added) first = std::min(first + shift, pairs - std::min(pairs, context));
      const auto count = static_cast<std::ptrdiff_t>(std::min(context, pairs - first));
      const auto from = tokens.begin() + static_cast<std::ptrdiff_t>(first);
      std::copy_n(from, count, input);
      std::copy_n(from + 1, count, label);
      input += context_;
      label += context_;
    }
    return {{inputs}, next};
  }

  ModelDescription model_description_;
  std::shared_ptr<torch::nn::Module> model_;
  std::int64_t context_ = 0;
  std::size_t test_batch_;
  std::uint64_t seed_;
  std::set<std::uint64_t> damaged_;
  Tokens train_;
  Tokens test_;
  std::vector<Tokens> added_;
  std::string description_;
};

class GptRecipe final : public Recipe {
 public:
  std::string name() const override { return "gpt"; }
  std::string summary() const override {
    return "any texts, to write more of them (sullae generate): pieces of words and a transformer";
  }
  std::vector<std::string> left_out_options() const override {
    return {"data-workers", "prefetch", "cache-megabytes"};
  }

  RecipeOptions defaults() const override {
    RecipeOptions options;
    options.epochs = 3;
    options.batch_size = 32;
    options.optimizer = "adamw";
    options.lr = 2e-3;
    options.beta2 = 0.99;
    options.lr_schedule = "cosine";
    options.warmup_epochs = 0.1;
    options.weight_decay = 0.1;
    options.clip_norm = 1;
    return options;
  }

  std::vector<ExtraOption> extra_options() const override {
    auto options = stack_options(GptOptions{}.stack);
    options.push_back({"pieces", 4000, "Pieces of words that are learnt from the training texts"});
    options.push_back({"context", 128, "Pieces that the model sees"});
    return options;
  }

  std::shared_ptr<torch::nn::Module> model(const ModelDescription& description) const override {
    return make_network({}, description);
  }

  std::unique_ptr<Task> make(const RecipeOptions& options, const World& world,
                             const ModelDescription* known) const override {
    return std::make_unique<GptTask>(*this, options, world, known);
  }

  Refinement refine(const ModelDescription& description, const RecipeOptions& options,
                    const std::vector<AddedSample>& added, const World& world) const override {
    auto task = std::make_unique<GptTask>(*this, options, world, &description);
    Refinement refinement;
    refinement.first_added = task->size(Split::train);
    refinement.old_test = task->size(Split::test);
    // Of one kind, as there are no classes.
    refinement.old_by_class.emplace_back(refinement.first_added);
    std::iota(refinement.old_by_class[0].begin(), refinement.old_by_class[0].end(), std::size_t{0});
    refinement.samples_of_added = task->add(added);
    refinement.task = std::move(task);
    return refinement;
  }
};

}  // namespace

std::unique_ptr<Recipe> make_gpt_recipe() { return std::make_unique<GptRecipe>(); }

}  // namespace sullae::train
