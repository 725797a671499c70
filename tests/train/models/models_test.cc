// The networks: as many parameters as published, the same names, and copies that are equal.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "support/errors.h"
#include "train/models/gpt.h"
#include "train/models/resnet.h"
#include "train/models/small.h"
#include "train/models/text.h"
#include "train/models/transformer.h"

namespace sullae::testing {
namespace {

using namespace train;

std::int64_t parameters_of(const torch::nn::Module& module) {
  std::int64_t count = 0;
  for (const auto& parameter : module.parameters()) count += parameter.numel();
  return count;
}

// torchvision's counts; that of ResNet-50 is in the paper's code too.
TEST(ResNets, HaveAsManyParametersAsPublished) {
  const std::pair<int, std::int64_t> published[] = {
      {18, 11689512}, {34, 21797672}, {50, 25557032}, {101, 44549160}};
  for (const auto& [depth, count] : published)
    EXPECT_EQ(parameters_of(*ResNet(ResNetOptions{.depth = depth})), count);
  EXPECT_EQ(parameters_of(*ResNet(ResNetOptions{.depth = 18, .classes = 10, .small_images = true})),
            11173962);
  EXPECT_TRUE(
      contains(error_of([] { ResNet(ResNetOptions{.depth = 20}); }), "expected 18, 34, 50 or 101"));
}

TEST(ResNets, HaveTorchvisionsNames) {
  const auto names = ResNet(ResNetOptions{.depth = 50})->named_parameters();
  for (const char* name :
       {"conv1.weight", "bn1.bias", "layer1.0.conv3.weight", "layer1.0.downsample.0.weight",
        "layer1.0.downsample.1.weight", "layer4.2.bn3.weight", "fc.bias"})
    EXPECT_TRUE(names.contains(name)) << name;
  EXPECT_TRUE(
      ResNet(ResNetOptions{.depth = 50})->named_buffers().contains("layer3.5.bn2.running_var"));
}

TEST(ResNets, AreVersionOneAndAHalf) {
  ResNet net(ResNetOptions{.depth = 50});
  for (const auto& item : net->named_modules()) {
    const bool first = item.key() == "layer2.0.conv1";
    if (!first && item.key() != "layer2.0.conv2") continue;
    EXPECT_EQ(item.value()->as<torch::nn::Conv2d>()->options.stride()->at(0), first ? 1 : 2);
  }
}

TEST(ResNets, StartWithBlocksThatAreIdentities) {
  const auto weight = [](bool zero) {
    ResNet net(ResNetOptions{.depth = 18, .zero_init_residual = zero});
    return net->named_parameters()["layer3.1.bn2.weight"].sum().item<double>();
  };
  EXPECT_EQ(weight(true), 0);
  EXPECT_EQ(weight(false), 256);
}

TEST(ResNets, TakeImagesOfAnySize) {
  ResNet large(ResNetOptions{.depth = 18, .classes = 7});
  large->eval();
  EXPECT_EQ(large->forward(torch::randn({2, 3, 97, 64})).sizes(),
            (std::vector<std::int64_t>{2, 7}));
  ResNet small(ResNetOptions{.depth = 18, .classes = 10, .small_images = true});
  EXPECT_EQ(small->forward(torch::randn({2, 3, 32, 32})).sizes(),
            (std::vector<std::int64_t>{2, 10}));
}

// Replicas are made by cloning.
void expect_apart(const torch::nn::Module& model, const torch::nn::Module& copy) {
  const auto parameters = model.named_parameters();
  for (const auto& item : copy.named_parameters())
    EXPECT_NE(item.value().data_ptr(), parameters[item.key()].data_ptr()) << item.key();
}

TEST(Models, ClonesGiveTheSame) {
  const auto check = [](const std::shared_ptr<torch::nn::Module>& model, const Batch& batch) {
    model->eval();
    const auto copy = model->clone();
    copy->eval();
    EXPECT_TRUE(torch::equal(dynamic_cast<Classifier&>(*model).scores(batch),
                             dynamic_cast<Classifier&>(*copy).scores(batch)));
    EXPECT_EQ(copy->parameters().size(), model->parameters().size());
    expect_apart(*model, *copy);
  };
  const auto labels = torch::zeros({2}, torch::kInt64);
  const TextModelOptions text{
      .words = 20, .classes = 3, .embedding_size = 4, .hidden_size = 5, .layers = 2};
  check(
      std::make_shared<ResNetImpl>(ResNetOptions{.depth = 18, .classes = 3, .small_images = true}),
      {{torch::randn({2, 3, 16, 16})}, labels});
  check(std::make_shared<MnistNetImpl>(), {{torch::randn({2, 1, 28, 28})}, labels});
  check(std::make_shared<MlpImpl>(MlpOptions{}), {{torch::randn({2, 1, 28, 28})}, labels});
  check(std::make_shared<TransformerClassifierImpl>(TransformerOptions{.pieces = 20}),
        {{torch::tensor({{3, 4, 5}, {6, 0, 0}})}, labels});
  check(std::make_shared<TextLstmImpl>(text), {{torch::tensor(std::vector<std::int64_t>{3, 4, 5}),
                                                torch::tensor(std::vector<std::int64_t>{2, 1})},
                                               labels});
  check(std::make_shared<TextBagImpl>(text), {{torch::tensor(std::vector<std::int64_t>{3, 4, 5}),
                                               torch::tensor(std::vector<std::int64_t>{0, 2})},
                                              labels});
  const GptImpl writer({.pieces = 20});
  expect_apart(writer, *writer.clone());
}

TEST(Transformers, PaddingChangesNothing) {
  const TransformerOptions options{
      .pieces = 20, .places = 8, .classes = 3, .stack = {.size = 8, .heads = 2}};
  TransformerClassifierImpl model(options);
  model.eval();
  const torch::NoGradGuard guard;
  const auto labels = torch::zeros({2}, torch::kInt64);
  const auto together =
      model.scores({{torch::tensor({{3, 4, 5, 0, 0}, {6, 7, 8, 9, 10}})}, labels});
  const auto first = model.scores({{torch::tensor({{3, 4, 5}})}, labels});
  const auto second = model.scores({{torch::tensor({{6, 7, 8, 9, 10}})}, labels});
  EXPECT_TRUE(torch::allclose(together, torch::cat({first, second}), 1e-4, 1e-5));
}

TEST(Transformers, SayWhichSizesDoNotGoTogether) {
  EXPECT_EQ(error_of([] { TransformerClassifierImpl({.pieces = 9, .stack = {.size = 10}}); }),
            "--embedding-size 10 is not a multiple of --heads 4");
  EXPECT_EQ(error_of([] { TransformerClassifierImpl({.pieces = 9, .stack = {.layers = 0}}); }),
            "--layers 0: expected 1 or more");
  EXPECT_EQ(error_of([] { TransformerClassifierImpl({.pieces = 9, .stack = {.size = 0}}); }),
            "--embedding-size 0: expected 1 or more");
  EXPECT_EQ(error_of([] { TransformerClassifierImpl({.pieces = 9, .stack = {.dropout = 1}}); }),
            "--dropout 1: expected 0 to less than 1");
  EXPECT_EQ(error_of([] { TransformerClassifierImpl({.pieces = 9, .places = 0}); }),
            "--max-words 0: expected 1 or more");
  EXPECT_EQ(error_of([] { GptImpl({.pieces = 9, .context = 0}); }),
            "--context 0: expected 1 or more");
}

// What training texts do not hold stays as it begins: drawn, it would be noise in every test.
TEST(TextModels, VectorsThatNothingTrainsAreZero) {
  const auto zero_rows = [](const torch::nn::Module& model) {
    const auto vectors = model.named_parameters()["embedding.weight"];
    std::vector<std::int64_t> rows;
    for (std::int64_t row = 0; row < vectors.size(0); ++row) {
      if (vectors[row].abs().sum().item<float>() == 0) rows.push_back(row);
    }
    return rows;
  };
  const TextModelOptions words{.words = 7, .embedding_size = 3, .hidden_size = 2};
  EXPECT_EQ(zero_rows(TextLstmImpl(words)), (std::vector<std::int64_t>{0, 1}));
  EXPECT_EQ(zero_rows(TextBagImpl(words)), (std::vector<std::int64_t>{0, 1}));
  EXPECT_EQ(zero_rows(TextBagImpl({.words = 7, .word_pairs = 4, .embedding_size = 3})),
            (std::vector<std::int64_t>{0, 1, 3, 4, 5, 6}));
}

}  // namespace
}  // namespace sullae::testing
