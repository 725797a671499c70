// The transformer that writes.
#include "train/models/gpt.h"

#include <gtest/gtest.h>

#include "sullae/torch/precision.h"
#include "support/errors.h"
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

// [batch, time, size].
torch::Tensor states_of(LanguageModel& model, const torch::Tensor& pieces) {
  return model.read(pieces, [](const torch::Tensor& states, const PieceVectors&) { return states; })
      .view({pieces.size(0), pieces.size(1), -1});
}

// [batch, time, pieces].
torch::Tensor scores_of(LanguageModel& model, const torch::Tensor& pieces) {
  return model
      .read(pieces, [](const torch::Tensor& states,
                       const PieceVectors& vectors) { return torch::linear(states, vectors.own); })
      .view({pieces.size(0), pieces.size(1), -1});
}

// All computed at once.
torch::Tensor scores_behind(LanguageModel& model, const std::vector<std::int64_t>& text) {
  return scores_of(model, torch::tensor(text).unsqueeze(0))[0][-1];
}

// Few of its rows are touched in a step, and what scores are made of counts.
TEST(Gpt, KeepsVectorsOfPiecesInFloat32) {
  const auto model = small_gpt();
  cast_to_16_bits(*model, torch::kBFloat16);
  const auto parameters = model->named_parameters();
  EXPECT_EQ(parameters["embedding.weight"].scalar_type(), torch::kFloat32);
  EXPECT_EQ(parameters["places.weight"].scalar_type(), torch::kFloat32);
  EXPECT_EQ(parameters["blocks.0.up.weight"].scalar_type(), torch::kBFloat16);
}

TEST(Gpt, SeesNothingThatComesLater) {
  const auto model = small_gpt();
  model->eval();
  const torch::NoGradGuard guard;
  const auto one = torch::tensor({{3, 4, 5, 6, 7, 8, 9}});
  auto other = one.clone();
  other[0][4] = 20;
  const auto difference = (states_of(*model, one) - states_of(*model, other)).abs().sum(2)[0];
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
  const std::vector<std::vector<std::int64_t>> texts = {{3, 4, 5}, {6, 7, 8, 9, 10}, {11}};
  std::int64_t row = 0;
  for (const auto& text : texts)
    EXPECT_TRUE(torch::allclose(scores[row++], scores_behind(*model, text), 1e-4, 1e-5)) << row;
}

TEST(Gpt, GoesOnWithTextsOfWhichItKeepsWhatItHasSeen) {
  const auto model = small_gpt();
  model->eval();
  const torch::NoGradGuard guard;
  // Parts of texts, which come together: their first pieces, one more, several more.
  const std::vector<std::vector<std::vector<std::int64_t>>> steps = {
      {{3, 4, 5}, {6}, {7, 8, 9, 10, 11, 12, 13, 14, 15}},
      {{6}, {7, 8}},
      {{20, 21}, {9}},
      {{1, 2, 3}, {10}}};
  std::vector<KeyValueCache> caches(3);
  std::vector<std::vector<std::int64_t>> whole(3);
  for (const auto& step : steps) {
    std::vector<NewPieces> texts;
    for (std::size_t text = 0; text < step.size(); ++text) {
      texts.push_back({step[text], &caches[text]});
      whole[text].insert(whole[text].end(), step[text].begin(), step[text].end());
    }
    const auto scores = model->go_on(texts);
    for (std::size_t text = 0; text < step.size(); ++text) {
      EXPECT_EQ(caches[text].size(), static_cast<std::int64_t>(whole[text].size()));
      EXPECT_TRUE(torch::allclose(scores[static_cast<std::int64_t>(text)],
                                  scores_behind(*model, whole[text]), 1e-4, 1e-5))
          << text << ", " << whole[text].size() << " pieces";
    }
  }
  // A step that fails changes no text.
  EXPECT_EQ(error_of<InputError>([&] {
              model->go_on({{{4}, &caches[1]}, {{5}, &caches[2]}});
            }),
            "a text of 9 + 1 pieces: expected 1 or more, and 9 in all");
  const auto after = model->go_on({{{4}, &caches[1]}})[0];
  whole[1].push_back(4);
  EXPECT_TRUE(torch::allclose(after, scores_behind(*model, whole[1]), 1e-4, 1e-5));
  EXPECT_GE(caches[2].bytes(), std::size_t{2 * 2 * 9 * 8 * 4});
  caches[2].clear();
  EXPECT_EQ(caches[2].bytes(), 0U);
  EXPECT_TRUE(torch::allclose(model->go_on({{{5}, &caches[2]}})[0], scores_behind(*model, {5}),
                              1e-4, 1e-5));
}

// Its loss is computed some places at a time, with its gradients.
TEST(NextPieces, HaveTheLossOfALanguageModel) {
  const LanguageModelling usual([](torch::nn::Module& model, const Batch& batch) {
    auto& writer = dynamic_cast<LanguageModel&>(model);
    return scores_of(writer, batch.inputs[0]);
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
