#include "train/mnist.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include "sullae/data.h"

namespace sullae::train {
namespace {

// Mean and deviation of MNIST's training pixels, scaled to [0, 1].
constexpr double kMean = 0.1307;
constexpr double kDeviation = 0.3081;

constexpr std::size_t kDrawnTrain = 60000;
constexpr std::size_t kDrawnTest = 10000;

struct NetImpl : torch::nn::Module {
  NetImpl()
      : first(register_module("first", torch::nn::Conv2d(1, 16, 5))),
        second(register_module("second", torch::nn::Conv2d(16, 32, 5))),
        hidden(register_module("hidden", torch::nn::Linear(32 * 4 * 4, 128))),
        output(register_module("output", torch::nn::Linear(128, 10))) {}

  // [batch, 1, 28, 28] -> [batch, 10]
  torch::Tensor forward(torch::Tensor x) {
    x = torch::relu(torch::max_pool2d(first(x), 2));
    x = torch::relu(torch::max_pool2d(second(x), 2));
    return output(torch::relu(hidden(x.flatten(1))));
  }

  torch::nn::Conv2d first, second;
  torch::nn::Linear hidden, output;
};
TORCH_MODULE(Net);

struct Tensors {
  torch::Tensor images;  // [count, 1, 28, 28] uint8
  torch::Tensor labels;  // [count] int64
};

Tensors to_tensors(data::ImageSet set) {
  if (set.rows != 28 || set.columns != 28) {
    throw InputError(
        fmt::format("mnist: the images are {} x {}, expected 28 x 28", set.rows, set.columns));
  }
  const auto count = static_cast<std::int64_t>(set.size());
  return {torch::from_blob(set.pixels.data(), {count, 1, 28, 28}, torch::kUInt8).clone(),
          torch::from_blob(set.labels.data(), {count}, torch::kUInt8).to(torch::kInt64)};
}

class MnistTask final : public Task {
 public:
  explicit MnistTask(const TrainOptions& options) {
    if (!options.data.empty()) {
      data::Mnist mnist = data::read_mnist(options.data);
      train_ = to_tensors(std::move(mnist.train));
      test_ = to_tensors(std::move(mnist.test));
      description_ = fmt::format("MNIST from {}", options.data.string());
    } else {
      train_ = to_tensors(data::draw_digits(kDrawnTrain, 2 * options.seed));
      test_ = to_tensors(data::draw_digits(kDrawnTest, 2 * options.seed + 1));
      description_ =
          "digits drawn by the program (no MNIST found; give --data DIR for the real one)";
    }
  }

  torch::nn::Module& model() override { return *net_; }
  std::size_t size(Split split) const override {
    return static_cast<std::size_t>(of(split).labels.size(0));
  }
  std::string data_description() const override { return description_; }

  BatchResult run(Split split, std::span<const std::size_t> samples) override {
    const Tensors& set = of(split);
    std::vector<std::int64_t> numbers(samples.begin(), samples.end());
    const auto index = torch::from_blob(numbers.data(), {static_cast<std::int64_t>(numbers.size())},
                                        torch::kInt64);
    const auto images =
        (set.images.index_select(0, index).to(torch::kFloat32) - 255 * kMean) / (255 * kDeviation);
    const auto labels = set.labels.index_select(0, index);
    const auto scores = net_->forward(images);
    return {torch::nn::functional::cross_entropy(scores, labels),
            scores.argmax(1).eq(labels).sum().item<std::int64_t>()};
  }

 private:
  const Tensors& of(Split split) const { return split == Split::train ? train_ : test_; }

  Net net_;
  Tensors train_;
  Tensors test_;
  std::string description_;
};

class MnistRecipe final : public Recipe {
 public:
  std::string name() const override { return "mnist"; }
  std::string summary() const override {
    return "handwritten digits, a small convolutional network";
  }
  TrainOptions defaults() const override {
    TrainOptions options;
    options.epochs = 3;
    options.batch_size = 64;
    options.lr = 1e-3;
    options.lr_schedule = "linear";
    options.data = where_present("../shared/data/mnist");
    return options;
  }
  std::unique_ptr<Task> make(const TrainOptions& options) const override {
    return std::make_unique<MnistTask>(options);
  }
};

}  // namespace

std::unique_ptr<Recipe> make_mnist_recipe() { return std::make_unique<MnistRecipe>(); }

}  // namespace sullae::train
