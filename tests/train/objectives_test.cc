// What the ready objectives say of a batch.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>

#include "sullae/train/objective.h"
#include "support/errors.h"

namespace sullae::testing {
namespace {

using namespace train;

Forward always(const torch::Tensor& output) {
  return [output](torch::nn::Module&, const Batch&) {
    return output;
  };
}

TEST(Objectives, ClassificationCountsWhatIsRight) {
  torch::nn::Module none;
  const Batch batch{{}, torch::tensor({0, 1, 1}, torch::kInt64)};
  const Classification objective(always(torch::tensor({{2.0, 0.0}, {0.0, 3.0}, {5.0, 0.0}})));
  const Tally tally = objective.measure(none, batch);
  EXPECT_EQ(tally.metrics.at(0).sum, 2);
  EXPECT_EQ(tally.metrics.at(0).count, 3);
  EXPECT_NEAR(tally.loss.sum / tally.loss.count, objective.loss(none, batch).item<double>(), 1e-6);
  EXPECT_EQ(objective.metrics().at(0).name, "accuracy");
}

TEST(Objectives, LabelsAreSmoothedInTrainingAlone) {
  torch::nn::Module none;
  const Batch batch{{}, torch::tensor({0}, torch::kInt64)};
  const auto scores = torch::tensor({{9.0, 0.0}});
  const Classification smooth(always(scores), 0.2);
  const Classification sharp(always(scores));
  EXPECT_GT(smooth.loss(none, batch).item<double>(), sharp.loss(none, batch).item<double>() + 0.5);
  EXPECT_EQ(smooth.measure(none, batch).loss.sum, sharp.measure(none, batch).loss.sum);
}

TEST(Objectives, RegressionMeasuresErrors) {
  torch::nn::Module none;
  const Batch batch{{}, torch::tensor({{1.0}, {2.0}})};
  const Regression objective(always(torch::tensor({{4.0}, {-2.0}})));  // off by 3 and -4
  EXPECT_NEAR(objective.loss(none, batch).item<double>(), 12.5, 1e-6);
  const Tally tally = objective.measure(none, batch);
  const auto metrics = objective.metrics();
  ASSERT_EQ(metrics.size(), 2U);
  EXPECT_NEAR(metrics[0].of_mean(tally.metrics[0].sum / tally.metrics[0].count), std::sqrt(12.5),
              1e-6);
  EXPECT_NEAR(tally.metrics[1].sum / tally.metrics[1].count, 3.5, 1e-6);
  EXPECT_FALSE(metrics[0].higher_is_better);
}

// [2] against [2, 1] would be broadcast to [2, 2].
TEST(Objectives, RegressionRefusesOtherShapes) {
  torch::nn::Module none;
  const Regression objective(always(torch::zeros({2})));
  const std::string error = error_of([&] { objective.loss(none, {{}, torch::zeros({2, 1})}); });
  EXPECT_EQ(error, "Regression: the model gives [2] for labels of [2, 1]: expected the same shape");
}

TEST(Objectives, TokensThatAreNoneDoNotCount) {
  torch::nn::Module none;
  const auto scores = torch::zeros({2, 3, 4});  // all alike
  const std::int64_t no = LanguageModelling::kNoToken;
  const Batch batch{{}, torch::tensor({0L, 1L, no, no, no, no}, torch::kInt64).view({2, 3})};
  const LanguageModelling objective(always(scores));
  // The second text has none at all.
  EXPECT_NEAR(objective.loss(none, batch).item<double>(), std::log(4.0) / 2, 1e-6);
  const Tally tally = objective.measure(none, batch);
  EXPECT_EQ(tally.loss.count, 2);
  const auto metrics = objective.metrics();
  EXPECT_EQ(metrics[0].name, "perplexity");
  EXPECT_NEAR(metrics[0].of_mean(tally.metrics[0].sum / tally.metrics[0].count), 4, 1e-5);
  EXPECT_EQ(tally.metrics[1].sum, 1) << "argmax of equals is the first";
}

// An objective of one's own need not measure.
TEST(Objectives, OneOfItsOwnMeasuresItsLoss) {
  class Own final : public Objective {
    torch::Tensor loss(torch::nn::Module&, const Batch& batch) const override {
      return batch.labels.mean();
    }
  } const own;
  torch::nn::Module none;
  const Tally tally = own.measure(none, {{}, torch::tensor({1.0, 3.0})});
  EXPECT_EQ(tally.loss.sum, 4);
  EXPECT_EQ(tally.loss.count, 2);
  EXPECT_TRUE(own.metrics().empty());
}

}  // namespace
}  // namespace sullae::testing
