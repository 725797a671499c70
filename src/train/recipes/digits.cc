// MNIST, and what has its format: a small convolutional network, and a multilayer perceptron.
#include <fmt/format.h>
#include <torch/torch.h>

#include <utility>

#include "base/log.h"
#include "sullae/data.h"
#include "sullae/error.h"
#include "train/batches/memory.h"
#include "train/models/small.h"
#include "train/recipes/recipes.h"

namespace sullae::train {
namespace {

// Of MNIST's training pixels, scaled to [0, 1].
constexpr double kMean = 0.1307;
constexpr double kDeviation = 0.3081;

constexpr std::size_t kDrawnTrain = 60000;
constexpr std::size_t kDrawnTest = 10000;

ImageTensors to_tensors(data::ImageSet set) {
  if (set.rows != 28 || set.columns != 28) {
    throw InputError(
        fmt::format("the images are {} x {}, expected 28 x 28", set.rows, set.columns));
  }
  const auto count = static_cast<std::int64_t>(set.size());
  return {torch::from_blob(set.pixels.data(), {count, 1, 28, 28}, torch::kUInt8).clone(),
          torch::from_blob(set.labels.data(), {count}, torch::kUInt8).to(torch::kInt64), kMean,
          kDeviation};
}

// JPEG files as MNIST's images.
ImageTensors to_tensors(const std::vector<AddedSample>& added,
                        const ModelDescription& description) {
  const data::ImageTransform transform({.size = 28,
                                        .centre_share = description.number("centre-share"),
                                        .mean = {},
                                        .deviation = {1, 1, 1}});
  const auto count = static_cast<std::int64_t>(added.size());
  const auto colours = torch::empty({count, 3, 28, 28});
  std::vector<std::int64_t> labels;
  for (std::int64_t i = 0; i < count; ++i) {
    const AddedSample& sample = added[static_cast<std::size_t>(i)];
    transform.apply(sample.input, data::Random(0, 0, 0), colours[i].data_ptr<float>());
    labels.push_back(label_of(sample, description));
  }
  const auto grey = colours.mean(1, /*keepdim=*/true);
  return {(255 * grey).round().to(torch::kUInt8), torch::tensor(labels, torch::kInt64), kMean,
          kDeviation};
}

class DigitsTask final : public Task {
 public:
  DigitsTask(const RecipeOptions& options, const Recipe& recipe, ModelDescription description)
      : model_description_(std::move(description)), model_(recipe.model(model_description_)) {
    if (!options.data.empty()) {
      data::Mnist mnist = data::read_mnist(options.data);
      train_ = to_tensors(std::move(mnist.train));
      test_ = to_tensors(std::move(mnist.test));
      description_ = fmt::format("MNIST from {}", options.data.string());
    } else {
      log::info_once("no MNIST was found: drawing {} digits, which takes a while",
                     kDrawnTrain + kDrawnTest);
      train_ = to_tensors(data::draw_digits(kDrawnTrain, 2 * options.seed));
      test_ = to_tensors(data::draw_digits(kDrawnTest, 2 * options.seed + 1));
      description_ =
          "digits drawn by the program (no MNIST found; give --data DIR for the real one)";
    }
  }

  std::vector<std::vector<std::size_t>> train_by_class() const {
    std::vector<std::vector<std::size_t>> by_class(
        static_cast<std::size_t>(model_description_.integer("classes")));
    const auto* const labels = train_.labels.data_ptr<std::int64_t>();
    for (std::size_t i = 0; i < size(Split::train); ++i)
      by_class[static_cast<std::size_t>(labels[i])].push_back(i);
    return by_class;
  }
  // To both splits.
  void append(const ImageTensors& added) {
    for (ImageTensors* set : {&train_, &test_}) {
      set->images = torch::cat({set->images, added.images});
      set->labels = torch::cat({set->labels, added.labels});
    }
  }

  std::shared_ptr<torch::nn::Module> model() override { return model_; }
  const ModelDescription& description() const override { return model_description_; }
  std::size_t size(Split split) const override {
    return static_cast<std::size_t>(of(split).labels.size(0));
  }
  std::string data_description() const override { return description_; }
  std::unique_ptr<BatchStream> batches(Split split, BatchPlan plan, std::size_t) override {
    return stream_from_memory(of(split), std::move(plan));
  }

 private:
  const ImageTensors& of(Split split) const { return split == Split::train ? train_ : test_; }

  ModelDescription model_description_;
  std::shared_ptr<torch::nn::Module> model_;
  ImageTensors train_;
  ImageTensors test_;
  std::string description_;
};

RecipeOptions digits_defaults() {
  RecipeOptions options;
  options.epochs = 3;
  options.batch_size = 64;
  options.lr = 1e-3;
  options.lr_schedule = "linear";
  options.data = where_present("../shared/data/mnist");
  return options;
}

ModelDescription describe(const Recipe& recipe, std::map<std::string, double> numbers) {
  numbers.insert({{"channels", 1}, {"image-size", 28}, {"centre-share", 1}, {"classes", 10}});
  return {.recipe = recipe.name(),
          .input = InputKind::image,
          .numbers = std::move(numbers),
          .mean = {kMean},
          .deviation = {kDeviation}};
}

class DigitsRecipe : public Recipe {
 public:
  RecipeOptions defaults() const override { return digits_defaults(); }
  // MNIST's four files say which are for testing, and what is in them.
  std::vector<std::string> left_out_options() const override {
    return {"source",          "group",        "test-data",    "format",
            "text-columns",    "label-column", "success-file", "prefetch",
            "cache-megabytes", "data-workers", "skip-damaged"};
  }
  std::unique_ptr<Task> make(const RecipeOptions& options, const World&,
                             const ModelDescription* known) const override {
    return std::make_unique<DigitsTask>(options, *this,
                                        known != nullptr ? *known : describe(*this, options.extra));
  }
  Refinement refine(const ModelDescription& description, const RecipeOptions& options,
                    const std::vector<AddedSample>& added, const World&) const override {
    auto task = std::make_unique<DigitsTask>(options, *this, description);
    Refinement refinement{.task = nullptr,
                          .old_by_class = task->train_by_class(),
                          .first_added = task->size(Split::train),
                          .old_test = task->size(Split::test)};
    task->append(to_tensors(added, description));
    refinement.task = std::move(task);
    return refinement;
  }
};

class MnistRecipe final : public DigitsRecipe {
 public:
  std::string name() const override { return "mnist"; }
  std::string summary() const override {
    return "handwritten digits, a small convolutional network";
  }
  std::shared_ptr<torch::nn::Module> model(const ModelDescription&) const override {
    return std::make_shared<MnistNetImpl>();
  }
};

class MlpRecipe final : public DigitsRecipe {
 public:
  std::string name() const override { return "mlp"; }
  std::string summary() const override { return "handwritten digits, a multilayer perceptron"; }
  std::vector<ExtraOption> extra_options() const override {
    return {
        {"hidden-size", 512, "Units of the first hidden layer; each next one has half as many"},
        {"hidden-layers", 2, "Hidden layers", ExtraOption::Takes::count_or_0},
        {"dropout", 0.2, "Part of the hidden units dropped in training", ExtraOption::Takes::part}};
  }
  std::shared_ptr<torch::nn::Module> model(const ModelDescription& description) const override {
    MlpOptions model{.hidden = {}, .dropout = description.number("dropout")};
    auto size = description.integer("hidden-size");
    for (auto layer = description.integer("hidden-layers"); layer > 0; --layer) {
      model.hidden.push_back(std::max<std::int64_t>(size, 1));
      size /= 2;
    }
    return std::make_shared<MlpImpl>(std::move(model));
  }
};

}  // namespace

std::unique_ptr<Recipe> make_mnist_recipe() { return std::make_unique<MnistRecipe>(); }
std::unique_ptr<Recipe> make_mlp_recipe() { return std::make_unique<MlpRecipe>(); }

}  // namespace sullae::train
