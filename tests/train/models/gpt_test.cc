// The transformer that writes.
#include "train/models/gpt.h"

#include <gtest/gtest.h>

#include "train/objectives/next_piece.h"

namespace sullae::testing {
namespace {

using namespace train;

std::shared_ptr<GptImpl> small_gpt(std::int64_t pieces = 30) {
  torch::manual_seed(3);
  auto model = std::make_shared<GptImpl>(GptOptions{
      .pieces = pieces, .context = 9, .stack = {.size = 8, .heads = 2, .layers = 2, .dropout = 0}});
  // As if it had learnt something, so that every parameter counts.
  const torch::NoGradGuard guard;
  for (auto& parameter : model->parameters()) parameter.add_(torch::randn_like(parameter) * 0.3);
  return model;
}

TEST(Gpt, SeesNothingThatComesLater) {
  const auto model = small_gpt();
  model->eval();
  const torch::NoGradGuard guard;
  const auto one = torch::tensor({{3, 4, 5, 6, 7, 8, 9}});
  auto other = one.clone();
  other[0][4] = 20;
  const auto difference = (model->states(one) - model->states(other)).abs().sum(2)[0];
  for (int place = 0; place < 7; ++place) {
    const double changed = difference[place].item<double>();
    EXPECT_EQ(changed > 1e-3, place >= 4) << place << ": " << changed;
  }
}

TEST(Gpt, ItsScriptSaysWhatFollowsTextsOfAnyLength) {
  const auto model = small_gpt();
  model->eval();
  const torch::NoGradGuard guard;
  const auto padded = torch::tensor({{3, 4, 5, 0, 0}, {6, 7, 8, 9, 10}, {11, 0, 0, 0, 0}});
  const auto scores = model->script().forward({padded, torch::tensor({3, 5, 1})}).toTensor();
  const auto texts = {torch::tensor({{3, 4, 5}}), torch::tensor({{6, 7, 8, 9, 10}}),
                      torch::tensor({{11}})};
  std::int64_t row = 0;
  for (const auto& text : texts)
    EXPECT_TRUE(torch::allclose(scores[row++], scores_of_next(*model, text)[0], 1e-4, 1e-5)) << row;
}

// Its loss is computed some places at a time, with its gradients.
TEST(NextPieces, HaveTheLossOfALanguageModel) {
  const LanguageModelling usual([](torch::nn::Module& model, const Batch& batch) {
    auto& writer = dynamic_cast<LanguageModel&>(model);
    return torch::linear(writer.states(batch.inputs[0]), writer.vectors());
  });
  const NextPiece objective;
  // Of the second, whose places are 162, 64 are computed together.
  for (const auto& [pieces, texts] : {std::pair{30, 3}, std::pair{20000, 18}}) {
    const auto model = small_gpt(pieces);
    auto next = torch::randint(0, pieces, {texts, 9}, torch::kInt64);
    next[0].fill_(LanguageModelling::kNoToken);
    next[1].slice(0, 5).fill_(LanguageModelling::kNoToken);
    const Batch batch{{torch::randint(0, pieces, {texts, 9}, torch::kInt64)}, next};
    std::vector<torch::Tensor> losses;
    std::vector<std::vector<torch::Tensor>> gradients;
    for (const Objective* one :
         {static_cast<const Objective*>(&usual), static_cast<const Objective*>(&objective)}) {
      model->zero_grad();
      losses.push_back(one->loss(*model, batch));
      (losses.back() * 3).backward();
      gradients.emplace_back();
      for (const auto& parameter : model->parameters())
        gradients.back().push_back(parameter.grad().clone());
    }
    EXPECT_TRUE(torch::allclose(losses[0], losses[1], 1e-5)) << pieces;
    for (std::size_t i = 0; i < gradients[0].size(); ++i)
      EXPECT_TRUE(torch::allclose(gradients[0][i], gradients[1][i], 1e-4, 1e-6)) << pieces << i;

    const torch::NoGradGuard guard;
    const Tally expected = usual.measure(*model, batch);
    const Tally found = objective.measure(*model, batch);
    EXPECT_NEAR(found.loss.sum, expected.loss.sum, 1e-4 * expected.loss.sum);
    EXPECT_EQ(found.loss.count, expected.loss.count);
    ASSERT_EQ(found.metrics.size(), 2U);
    EXPECT_EQ(found.metrics[1].sum, expected.metrics[1].sum);
    EXPECT_EQ(found.metrics[1].count, expected.metrics[1].count);
  }
}

}  // namespace
}  // namespace sullae::testing
