// What image models are trained further with.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <numeric>

#include "support/errors.h"
#include "support/idx_files.h"
#include "support/ranks.h"
#include "support/temporary_directory.h"
#include "train/fine_tune.h"
#include "train/small_images.h"

namespace sullae::testing {
namespace {

using namespace train;

class RefineImages : public ::testing::Test {
 protected:
  RefineImages() { write_small_images(directory_.path() / "colours", 30, 10); }

  RecipeOptions options() const {
    RecipeOptions options;
    options.data = directory_.path() / "colours";
    return options;
  }
  static ModelDescription description() {
    return {.recipe = "resnet18",
            .numbers = {{"channels", 3},
                        {"image-size", 16},
                        {"centre-share", 1},
                        {"classes", 2},
                        {"small-images", 1},
                        {"zero-init-residual", 1}},
            .classes = {"blue", "red"}};
  }
  static torch::Tensor read(Task& task, Split split, std::size_t sample, std::size_t epoch) {
    return task.batches(split, {{sample}}, epoch)->next().value().inputs[0];
  }
  template <class Work>
  static void on_one_rank(Work work) {
    run_ranks({.size = 1}, work);
  }

  TemporaryDirectory directory_;
};

TEST_F(RefineImages, AddedOnesStandBehindTheOldOnes) {
  const auto green = one_colour_jpeg(40, 20, 0, 200, 0);
  on_one_rank([&](World& world) {
    // An old training image and an old test image are corrected, too.
    const auto refinement =
        find_recipe("resnet18")
            .refine(description(), options(),
                    {{green, "blue"}, {red_or_blue(4), "blue"}, {red_or_blue(31), "red"}}, world);
    EXPECT_EQ(refinement.first_added, 29U);
    EXPECT_EQ(refinement.old_test, 9U);
    ASSERT_EQ(refinement.old_by_class.size(), 2U);
    EXPECT_EQ(refinement.old_by_class[0].size(), 15U) << "blue";
    EXPECT_EQ(refinement.old_by_class[1].size(), 14U) << "red, without the corrected one";
    Task& task = *refinement.task;
    EXPECT_EQ(task.size(Split::train), 32U);
    EXPECT_EQ(task.size(Split::test), 12U);
    for (const std::size_t sample : refinement.old_by_class[1])
      EXPECT_EQ(task.batches(Split::train, {{sample}}, 1)->next()->labels.item<int>(), 1);
    const auto labels = task.batches(Split::test, {{9, 10, 11}}, 0)->next()->labels;
    EXPECT_TRUE(labels.equal(torch::tensor({0, 0, 1}, torch::kInt64)));

    // They are trained with augmentation, and judged without.
    EXPECT_TRUE(read(task, Split::test, 9, 0).equal(read(task, Split::test, 9, 1)));
    bool moved = false;
    for (std::size_t epoch = 1; epoch < 10; ++epoch)
      moved |= !read(task, Split::train, 29, epoch).equal(read(task, Split::test, 9, 0));
    EXPECT_TRUE(moved);
    EXPECT_EQ(read(task, Split::train, 29, 0).sizes(), (std::vector<std::int64_t>{1, 3, 16, 16}));
  });
}

TEST_F(RefineImages, AreTrained) {
  on_one_rank([&](World& world) {
    auto refinement = find_recipe("resnet18")
                          .refine(description(), options(),
                                  {{one_colour_jpeg(16, 16, 0, 200, 0), "blue"}}, world);
    const auto result = fine_tune(refinement, 0, {.epochs = 2, .batch_size = 5, .replay = 9}, world,
                                  [](std::int64_t, std::int64_t) {});
    EXPECT_EQ(result.steps, 4) << "1 new and 9 old images an epoch, 5 a step";
    EXPECT_EQ(result.changed.samples, 1U);
    EXPECT_EQ(result.test.samples, 10U);
    EXPECT_NE(result.changed.before.loss, result.changed.after.loss);
  });
}

TEST_F(RefineImages, SaysWhatCannotBe) {
  on_one_rank([&](World& world) {
    const auto& recipe = find_recipe("resnet18");
    EXPECT_EQ(error_of([&] {
                recipe.refine(description(), options(), {{red_or_blue(1), "green"}}, world);
              }),
              "a sample has the label 'green', which the model does not know");
    auto others = description();
    others.classes = {"blue", "green"};
    EXPECT_TRUE(contains(error_of([&] { recipe.refine(others, options(), {}, world); }),
                         "its class is 'red', expected one of blue, green"));
    auto fewer = description();
    fewer.numbers["classes"] = 1;
    EXPECT_TRUE(contains(error_of([&] { recipe.refine(fewer, options(), {}, world); }),
                         "has a label 1, and the model has 1 classes"));
  });
}

TEST_F(RefineImages, DigitsAreMadeAsMnistsAre) {
  const auto mnist = directory_.path() / "mnist";
  std::filesystem::create_directory(mnist);
  write_small_mnist(mnist, 200, 50);
  RecipeOptions options;
  options.data = mnist;
  ModelDescription description{
      .recipe = "mnist",
      .numbers = {{"channels", 1}, {"image-size", 28}, {"centre-share", 1}, {"classes", 10}},
      .mean = {0.1307},
      .deviation = {0.3081}};
  on_one_rank([&](World& world) {
    const auto refinement = find_recipe("mnist").refine(
        description, options, {{one_colour_jpeg(28, 28, 255, 255, 255), "7"}}, world);
    EXPECT_EQ(refinement.first_added, 200U);
    EXPECT_EQ(refinement.old_test, 50U);
    const auto count = std::accumulate(
        refinement.old_by_class.begin(), refinement.old_by_class.end(), std::size_t{0},
        [](std::size_t sum, const auto& samples) { return sum + samples.size(); });
    EXPECT_EQ(count, 200U);
    const auto batch = refinement.task->batches(Split::test, {{50}}, 0)->next().value();
    EXPECT_EQ(batch.labels.item<int>(), 7);
    EXPECT_TRUE(torch::allclose(batch.inputs[0], torch::full({1, 1, 28, 28}, (1 - 0.1307) / 0.3081),
                                1e-4, 1e-4));
  });
}

}  // namespace
}  // namespace sullae::testing
