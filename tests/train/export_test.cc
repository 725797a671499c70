// Versions of a model repository that replace others.
#include <gtest/gtest.h>

#include "serve/models.h"
#include "support/errors.h"
#include "support/idx_files.h"
#include "support/program.h"
#include "support/temporary_directory.h"
#include "train/small_texts.h"

namespace sullae::testing {
namespace {

class Exported : public ::testing::Test {
 protected:
  Exported() { export_small_texts(texts_, repository_); }
  ProgramResult train(const std::string& recipe, const std::filesystem::path& data) {
    return run_program({sullae_program(), "train", recipe, "--data", data, "--max-steps", "1",
                        "--batch-size", "20", "--export", repository_, "--export-name", "texts"});
  }
  bool has_version(int version) const {
    return std::filesystem::exists(repository_ / "texts" / std::to_string(version));
  }

  TemporaryDirectory directory_;
  std::filesystem::path texts_ = directory_.path() / "data";
  std::filesystem::path repository_ = directory_.path() / "models";
};

TEST_F(Exported, IsPutOverOnesOfItsKindAlone) {
  const auto images = directory_.path() / "images";
  std::filesystem::create_directory(images);
  write_small_mnist(images, 40, 20);
  const auto refused = train("mnist", images);
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_TRUE(contains(refused.standard_error,
                       "models/texts takes texts and gives classes, and this one takes images and "
                       "gives classes: expected another name (--export-name)"))
      << refused.standard_error;
  EXPECT_FALSE(contains(refused.standard_output, "epoch 1")) << "before anything is trained";
  EXPECT_FALSE(has_version(2));
  const auto same = train("text", texts_);
  EXPECT_EQ(same.exit_code, 0) << same.standard_error;
  EXPECT_FALSE(contains(same.standard_error, "are others"));
  EXPECT_TRUE(has_version(2));
  put_script(repository_ / "texts", 3, "def forward(self, x):\n  return x\n");
  EXPECT_TRUE(contains(train("text", texts_).standard_error, "3/model.pt is no checkpoint"));
}

TEST_F(Exported, OfOtherClassesIsWarnedOf) {
  std::ofstream(texts_ / "train.tsv", std::ios::app) << "a film like others\tso-so\n";
  const auto other = train("text", texts_);
  EXPECT_EQ(other.exit_code, 0) << other.standard_error;
  EXPECT_TRUE(
      contains(other.standard_error, "models/texts are others than those of its newest version"))
      << other.standard_error;
}

}  // namespace
}  // namespace sullae::testing
