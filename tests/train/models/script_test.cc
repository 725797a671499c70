// What is served computes what was trained.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "support/errors.h"
#include "train/models/resnet.h"
#include "train/models/small.h"
#include "train/models/text.h"
#include "train/models/transformer.h"

namespace sullae::testing {
namespace {

using namespace train;

void expect_equal_scores(torch::nn::Module& model, const Batch& batch,
                         const std::vector<torch::jit::IValue>& inputs,
                         const torch::Tensor& order = {}) {
  const torch::NoGradGuard guard;
  // Statistics of norms that are not those they start with.
  for (auto& buffer : model.buffers()) {
    if (buffer.is_floating_point()) buffer.add_(torch::rand_like(buffer) * 0.1);
  }
  for (auto& parameter : model.parameters()) parameter.add_(torch::rand_like(parameter) * 0.02);
  model.eval();
  auto& classifier = dynamic_cast<Classifier&>(model);
  auto expected = classifier.scores(batch);
  if (order.defined()) expected = expected.index_select(0, order);
  auto script = classifier.script();
  const auto scores = script.forward(inputs).toTensor();
  EXPECT_TRUE(torch::allclose(scores, expected, 1e-4, 1e-5)) << scores << expected;
}

TEST(Scripts, OfImagesGiveWhatTheModelsGive) {
  torch::manual_seed(3);
  const auto digits = torch::rand({3, 1, 28, 28});
  expect_equal_scores(*std::make_shared<MnistNetImpl>(), {{digits}, {}}, {digits});
  expect_equal_scores(*std::make_shared<MlpImpl>(MlpOptions{.hidden = {32, 16, 8}}), {{digits}, {}},
                      {digits});
  const auto small = torch::rand({2, 3, 32, 32});
  expect_equal_scores(*ResNet(ResNetOptions{.depth = 18, .classes = 10, .small_images = true}),
                      {{small}, {}}, {small});
  const auto photographs = torch::rand({2, 3, 64, 64});
  for (const int depth : {34, 50})
    expect_equal_scores(*ResNet(ResNetOptions{.depth = depth, .classes = 7}), {{photographs}, {}},
                        {photographs});
}

TEST(Scripts, OfTextsGiveWhatTheModelsGive) {
  torch::manual_seed(3);
  // Texts of 2, 5 and 1 words: packed by time step, joined, and padded.
  const auto padded = torch::tensor({{3, 4, 0, 0, 0}, {5, 6, 7, 8, 9}, {2, 0, 0, 0, 0}});
  const auto lengths = torch::tensor({2, 5, 1});
  const auto packed = torch::tensor({5, 3, 2, 6, 4, 7, 8, 9});
  const auto packed_sizes = torch::tensor({3, 2, 1, 1, 1});
  // The LSTM's scores come longest text first.
  const auto order = torch::tensor({1, 0, 2});
  for (const std::int64_t layers : {1, 2}) {
    TextModelOptions options{
        .words = 12, .classes = 3, .embedding_size = 6, .hidden_size = 5, .layers = layers};
    expect_equal_scores(*std::make_shared<TextLstmImpl>(options), {{packed, packed_sizes}, {}},
                        {padded, lengths}, order);
  }
  for (const std::int64_t layers : {1, 3})
    expect_equal_scores(*std::make_shared<TransformerClassifierImpl>(
                            TransformerOptions{.pieces = 12,
                                               .places = 8,
                                               .classes = 3,
                                               .stack = {.size = 8, .heads = 2, .layers = layers}}),
                        {{padded}, {}}, {padded, lengths});
  const auto joined = torch::tensor({3, 4, 5, 6, 7, 8, 9, 2});
  const auto starts = torch::tensor({0, 2, 7});
  expect_equal_scores(
      *std::make_shared<TextBagImpl>(TextModelOptions{.words = 12, .embedding_size = 6}),
      {{joined, starts}, {}}, {padded, lengths});
}

}  // namespace
}  // namespace sullae::testing
