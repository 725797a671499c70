// Training a trained model further.
#include "train/fine_tune.h"

#include <gtest/gtest.h>

#include <set>

#include "sullae/torch.h"
#include "support/errors.h"
#include "support/temporary_directory.h"
#include "train/replay.h"
#include "train/small_texts.h"
#include "train/trained_on.h"

namespace sullae::testing {
namespace {

using namespace train;

// A recipe that does no more than it must.
class Plain final : public Recipe {
 public:
  std::string name() const override { return "plain"; }
  std::string summary() const override { return {}; }
  RecipeOptions defaults() const override { return {}; }
  std::shared_ptr<torch::nn::Module> model(const ModelDescription&) const override {
    return nullptr;
  }
  std::unique_ptr<Task> make(const RecipeOptions&, const World&,
                             const ModelDescription*) const override {
    return nullptr;
  }
};

TEST(Replay, DrawsAsManyOfEachClass) {
  std::vector<std::vector<std::size_t>> by_class(3);
  for (std::size_t i = 0; i < 1000; ++i) by_class[i % 10 == 0 ? 0 : 1].push_back(i);
  by_class[2] = {5000, 5001};
  const auto drawn = draw_balanced(by_class, 100, 7);
  ASSERT_EQ(drawn.size(), 100U);
  EXPECT_EQ(std::set(drawn.begin(), drawn.end()).size(), 100U) << "none twice";
  const auto of = [&](std::size_t c) {
    return std::ranges::count_if(drawn, [&](std::size_t sample) {
      return std::ranges::find(by_class[c], sample) != by_class[c].end();
    });
  };
  EXPECT_EQ(of(2), 2) << "all of a class that has fewer";
  EXPECT_EQ(of(0), 49) << "what it lacks the others make up for";
  EXPECT_EQ(of(1), 49);
  EXPECT_EQ(drawn, draw_balanced(by_class, 100, 7));
  EXPECT_NE(drawn, draw_balanced(by_class, 100, 8));
}

TEST(Replay, TakesOddSizes) {
  EXPECT_TRUE(draw_balanced({}, 10, 1).empty());
  EXPECT_TRUE(draw_balanced({{}, {}}, 10, 1).empty());
  EXPECT_TRUE(draw_balanced({{1, 2, 3}}, 0, 1).empty());
  EXPECT_EQ(draw_balanced({{1}, {}, {2}}, 10, 1), (std::vector<std::size_t>{1, 2}));
  EXPECT_EQ(draw_balanced({{1, 2}, {3, 4}}, 1, 1).size(), 1U);
  EXPECT_TRUE(draw(0, 3, 1).empty());
  EXPECT_EQ(draw(3, 0, 1), (std::vector<std::size_t>{0, 1, 2}));
  EXPECT_EQ(draw(3, 3, 1), (std::vector<std::size_t>{0, 1, 2}));
  const auto two = draw(3, 2, 1);
  EXPECT_EQ(std::set(two.begin(), two.end()).size(), 2U);
}

class FineTune : public ::testing::Test {
 protected:
  FineTune() { export_small_texts(directory_.path() / "data", repository_); }
  std::filesystem::path file() const { return repository_ / "texts" / "1" / "model.ckpt"; }

  struct Outcome {
    FineTuneResult result;
    std::vector<torch::Tensor> weights;
    std::int64_t calls = 0;
  };
  Outcome tune(int ranks, const std::vector<AddedSample>& added, std::size_t first_changed,
               const FineTuneOptions& options) {
    Outcome outcome;
    run_ranks({.size = ranks}, [&](World& world) {
      const auto metadata = read_checkpoint_metadata(file());
      const auto description = description_of(metadata, "");
      auto refinement =
          find_recipe("text").refine(description, trained_on(metadata, ""), added, world);
      const auto model = refinement.task->model();
      if (world.rank() == 0) load_checkpoint(file(), *model);
      broadcast_parameters(*model, 0, world);
      std::int64_t calls = 0;
      const auto result = fine_tune(refinement, first_changed, options, world,
                                    [&](std::int64_t step, std::int64_t steps) {
                                      EXPECT_EQ(step, ++calls);
                                      EXPECT_LE(step, steps);
                                    });
      if (world.rank() != 0) return;
      outcome = {.result = result, .calls = calls};
      for (const auto& weight : model->parameters())
        outcome.weights.push_back(weight.detach().clone());
    });
    return outcome;
  }

  TemporaryDirectory directory_;
  std::filesystem::path repository_ = directory_.path() / "models";
  FineTuneOptions options_{.epochs = 4, .batch_size = 12, .lr = 0.05};
};

TEST_F(FineTune, LearnsWhatIsNewAndKeepsWhatWasKnown) {
  const auto [result, weights, calls] = tune(1, praised_twists(20), 0, options_);
  EXPECT_EQ(result.changed.samples, 20U);
  EXPECT_LT(result.changed.before.accuracy, 0.2);
  EXPECT_GT(result.changed.after.accuracy, 0.9);
  EXPECT_LT(result.changed.after.loss, result.changed.before.loss);
  EXPECT_EQ(result.test.samples, 100U);
  EXPECT_GT(result.test.before.accuracy, 0.95);
  EXPECT_GT(result.test.after.accuracy, 0.85) << "a few blamed twists may turn";
  EXPECT_EQ(result.earlier.samples, 0U);
  EXPECT_EQ(result.replayed, 80U);
  EXPECT_EQ(result.steps, 4 * 9) << "100 samples an epoch, 12 a step";
  EXPECT_EQ(calls, result.steps);
}

TEST_F(FineTune, AnyNumberOfRanksGivesTheSame) {
  const auto one = tune(1, praised_twists(27), 3, options_);
  for (const int ranks : {2, 3}) {
    const auto several = tune(ranks, praised_twists(27), 3, options_);
    EXPECT_EQ(several.result.steps, one.result.steps);
    ASSERT_EQ(several.weights.size(), one.weights.size());
    for (std::size_t i = 0; i < one.weights.size(); ++i)
      EXPECT_TRUE(torch::allclose(several.weights[i], one.weights[i], 1e-3, 1e-4))
          << ranks << ": " << (several.weights[i] - one.weights[i]).abs().max().item<float>();
    EXPECT_DOUBLE_EQ(several.result.test.before.accuracy, one.result.test.before.accuracy);
    EXPECT_DOUBLE_EQ(several.result.changed.before.accuracy, one.result.changed.before.accuracy);
  }
}

TEST_F(FineTune, ReplaysEarlierSamplesToo) {
  const auto earlier = praised_twists(30);
  auto added = earlier;
  added.push_back({"film1 is dull", "0"});
  added.push_back({"film2 is dull", "0"});
  options_.replay = 20;
  const auto [result, weights, calls] = tune(1, added, earlier.size(), options_);
  EXPECT_EQ(result.changed.samples, 2U);
  EXPECT_EQ(result.earlier.samples, 30U);
  EXPECT_EQ(result.replayed, 40U);
  EXPECT_GT(result.earlier.after.accuracy, result.earlier.before.accuracy)
      << "half of what is replayed, and so trained";
}

TEST_F(FineTune, WhatAnOperatorSaysTakesThePlaceOfWhatWasSaid) {
  // A text of the training set and one of the test set, both corrected.
  std::ifstream train_file(directory_.path() / "data" / "train.tsv");
  std::ifstream test_file(directory_.path() / "data" / "test.tsv");
  std::string text[2];
  for (int line = 0; line < 2; ++line) {
    std::getline(train_file, text[0]);
    std::getline(test_file, text[1]);
  }
  for (auto& t : text) t = t.substr(0, t.find('\t'));
  run_ranks({.size = 1}, [&](World& world) {
    const auto metadata = read_checkpoint_metadata(file());
    const auto refinement =
        find_recipe("text").refine(description_of(metadata, ""), trained_on(metadata, ""),
                                   {{text[0], "1"}, {text[1], "1"}, {"new", "0"}}, world);
    EXPECT_EQ(refinement.task->size(Split::train), refinement.first_added + 3);
    EXPECT_LT(refinement.first_added, 400U);
    EXPECT_LT(refinement.old_test, 100U);
    EXPECT_EQ(refinement.task->size(Split::test), refinement.old_test + 3);
    EXPECT_EQ(refinement.old_by_class[0].size() + refinement.old_by_class[1].size(),
              refinement.first_added);
  });
}

TEST_F(FineTune, SaysWhatCannotBe) {
  run_ranks({.size = 1}, [&](World& world) {
    const auto metadata = read_checkpoint_metadata(file());
    const auto description = description_of(metadata, "");
    const auto& recipe = find_recipe("text");
    EXPECT_EQ(error_of([&] {
                recipe.refine(description, trained_on(metadata, ""), {{"a", "superb"}}, world);
              }),
              "a sample has the label 'superb', which the model does not know");
    RecipeOptions none;
    EXPECT_TRUE(contains(error_of([&] { recipe.refine(description, none, {}, world); }),
                         "no data: give --data"));
    EXPECT_EQ(error_of([&] { Plain().refine(description, none, {}, world); }),
              "models of the recipe plain are not trained further");
    auto one_class = description;
    one_class.numbers["classes"] = 1;
    EXPECT_TRUE(
        contains(error_of([&] { recipe.refine(one_class, trained_on(metadata, ""), {}, world); }),
                 "has a label 1, and the model has 1 classes"));
  });
}

TEST(TrainedOn, FindsTheDataAgain) {
  CheckpointMetadata metadata;
  EXPECT_TRUE(trained_on(metadata, "f").data.empty());
  add_configuration(metadata,
                    "data = 'some/texts'\ntest-data = '/elsewhere/t.csv'\nlabel-column = 2\n"
                    "format = 'csv'\nseed = 9\nskip-damaged = true\n");
  const auto options = trained_on(metadata, "f");
  EXPECT_EQ(options.data, std::filesystem::current_path() / "some/texts");
  EXPECT_EQ(options.test_data, "/elsewhere/t.csv");
  EXPECT_EQ(options.label_column, "2");
  EXPECT_EQ(options.format, "csv");
  EXPECT_EQ(options.seed, 9U);
  EXPECT_TRUE(options.skip_damaged);
  add_configuration(metadata, "data = ");
  EXPECT_TRUE(contains(error_of([&] { trained_on(metadata, "f"); }),
                       "f: its configuration cannot be read"));
}

}  // namespace
}  // namespace sullae::testing
