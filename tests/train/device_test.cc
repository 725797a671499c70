// Training on a GPU from outside: what the processors learn, learnt on it, and taken from one to
// the other.
#include <torch/cuda.h>

#include "support/errors.h"
#include "train/fixture.h"
#include "train/small_texts.h"

namespace sullae::testing {
namespace {

class TrainOnAGpu : public Train {
 protected:
  void SetUp() override {
    if (!torch::cuda::is_available())
      GTEST_SKIP() << "NO GPU, OR A LIBTORCH WITHOUT CUDA: training on a GPU is not tested";
  }
  double loss(int ranks, std::vector<std::string> options) {
    options.insert(options.end(), {"--epochs", "2", "--report", report_});
    const auto result = train(ranks, options);
    EXPECT_EQ(result.exit_code, 0) << result.standard_error;
    return result.exit_code == 0 ? read_json(report_).at("test_loss").get<double>() : -1;
  }
  double loss_on_processors(const std::vector<std::string>& options) {
    const HiddenGpus hidden;
    return loss(1, options);
  }
};

TEST_F(TrainOnAGpu, LearnsWhatTheProcessorsLearn) {
  const double expected = loss_on_processors({});
  EXPECT_NEAR(loss(1, {}), expected, 0.05);
  EXPECT_NEAR(loss(2, {}), expected, 0.05) << "two ranks share it";
  EXPECT_NEAR(loss(1, {"--precision", "float16"}), expected, 0.05);
  EXPECT_NEAR(loss(1, {"--precision", "bfloat16"}), expected, 0.1);
  EXPECT_NEAR(loss(2, {"--compression", "float16"}), expected, 0.05);
}

TEST_F(TrainOnAGpu, CheckpointsGoToProcessorsAndBack) {
  const double expected = loss_on_processors({});
  const std::vector<std::string> part = {"--checkpoint-dir", checkpoints_, "--max-steps", "40"};
  const std::vector<std::string> rest = {"--checkpoint-dir", checkpoints_, "--resume"};
  loss(1, part);
  EXPECT_NEAR(loss_on_processors(rest), expected, 0.05) << "from the GPU";
  std::filesystem::remove_all(checkpoints_);
  loss_on_processors(part);
  EXPECT_NEAR(loss(1, rest), expected, 0.05) << "to the GPU";
}

TEST_F(TrainOnAGpu, GoesOnWhereItWasStopped) {
  const double straight = loss(1, {"--precision", "bfloat16"});
  loss(1, {"--precision", "bfloat16", "--checkpoint-dir", checkpoints_, "--max-steps", "40"});
  EXPECT_NEAR(loss(1, {"--precision", "bfloat16", "--checkpoint-dir", checkpoints_, "--resume"}),
              straight, 0.05);
  EXPECT_NEAR(loss(2, {"--checkpoint-dir", checkpoints_, "--resume"}), straight, 0.1)
      << "nothing was left, and two ranks test it";
}

TEST_F(TrainOnAGpu, TextsLearnWithSparseGradients) {
  const auto texts = directory_.path() / "texts";
  write_small_texts(texts);
  for (const std::string recipe : {"text", "lstm"}) {
    const auto loss_of_recipe = [&] {
      const auto result = run_program({sullae_program(),
                                       "run",
                                       "-np",
                                       "2",
                                       sullae_program(),
                                       "train",
                                       recipe,
                                       "--data",
                                       texts,
                                       "--epochs",
                                       "3",
                                       "--batch-size",
                                       "20",
                                       "--lr",
                                       "0.05",
                                       "--embedding-size",
                                       "8",
                                       "--dropout",
                                       "0",
                                       "--report",
                                       report_});
      EXPECT_EQ(result.exit_code, 0) << result.standard_error;
      return read_json(report_).at("test_loss").get<double>();
    };
    const double found = loss_of_recipe();
    const HiddenGpus hidden;
    EXPECT_NEAR(found, loss_of_recipe(), 0.1) << recipe;
  }
}

TEST_F(TrainOnAGpu, IsLeftAloneByParameterServers) {
  const auto with_servers = [&](std::vector<std::string> options) {
    options.insert(options.end(), {"--max-steps", "4"});
    auto all = words(2, options);
    all.insert(all.begin() + 2, {"--ps", "1"});
    return run_program(all);
  };
  const auto trained = with_servers({});
  EXPECT_EQ(trained.exit_code, 0) << trained.standard_error;
  EXPECT_TRUE(contains(trained.standard_output,
                       "the GPU is left alone: parameter servers train in host memory alone"));
  const auto refused = with_servers({"--device", "cuda"});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_TRUE(contains(refused.standard_error,
                       "--device cuda: parameter servers train in host memory alone so far"))
      << refused.standard_error;
}

// Needs no GPU.
TEST_F(Train, SaysWhereThereIsNoGpu) {
  const HiddenGpus hidden;
  const auto result = train(1, {"--device", "cuda"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_TRUE(
      contains(result.standard_error, "--device cuda: there is no GPU, or a libtorch without CUDA"))
      << result.standard_error;
  EXPECT_EQ(train(1, {"--device", "cpu", "--max-steps", "1"}).exit_code, 0);
}

TEST_F(TrainOnAGpu, ItsModelIsServedByProcessors) {
  const auto models = directory_.path() / "models";
  loss(1, {"--export", models});
  const auto out = directory_.path() / "out";
  for (const char* device : {"cuda", "cpu"}) {
    const auto result = run_program({sullae_program(), "predict", models / "mnist", "--data",
                                     mnist_, "--device", device, "--output", out / device});
    EXPECT_EQ(result.exit_code, 0) << result.standard_error;
  }
  std::ifstream gpu(out / "cuda" / "part-00000.jsonl");
  std::ifstream processor(out / "cpu" / "part-00000.jsonl");
  int rows = 0;
  for (std::string one, other; std::getline(gpu, one) && std::getline(processor, other); ++rows) {
    EXPECT_NEAR(nlohmann::json::parse(one).at("probability").get<double>(),
                nlohmann::json::parse(other).at("probability").get<double>(), 1e-3);
  }
  EXPECT_GT(rows, 0);
}

}  // namespace
}  // namespace sullae::testing
