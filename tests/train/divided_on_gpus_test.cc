// Models that are divided among ranks whose parts are on a GPU, which they share: what the
// processors learn, through host memory; and by NCCL, which takes ranks with NCCL_HOSTIDs of their
// own for ranks on hosts of their own.
#include <torch/cuda.h>

#include "train/transformers.h"

namespace sullae::testing {
namespace {

class DividedOnGpus : public Transformers, public ::testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    hidden_.reset();  // or CUDA, when it is first asked, sees none
    if (!torch::cuda::is_available())
      GTEST_SKIP() << "NO GPU, OR A LIBTORCH WITHOUT CUDA: parts of models on GPUs are not tested";
  }
  ProgramResult run(int ranks, const std::string& recipe,
                    std::vector<std::string> options) override {
    auto all = transformer_words(ranks, recipe, std::move(options));
    if (on_gpu_ && std::string(GetParam()) == "nccl")
      all.insert(std::find(all.begin() + 1, all.end(), sullae_program()),
                 {"sh", "-c", "NCCL_HOSTID=host$SULLAE_RANK exec \"$@\"", "sh"});
    return run_program(all,
                       {{"SULLAE_DEVICE_TRANSPORT", GetParam()}, {"NCCL_SOCKET_IFNAME", "lo"}});
  }
  nlohmann::json on_processors(const std::string& recipe, std::vector<std::string> options) {
    on_gpu_ = false;
    hidden_.emplace();
    return trained(1, recipe, std::move(options));
  }
  nlohmann::json on_gpu(int ranks, const std::string& recipe, std::vector<std::string> options) {
    on_gpu_ = true;
    hidden_.reset();
    options.insert(options.end(), {"--device", "cuda"});
    return trained(ranks, recipe, std::move(options));
  }

 private:
  bool on_gpu_ = false;
};

TEST_P(DividedOnGpus, LearnWhatProcessorsLearn) {
  const std::vector<std::string> options = {"--epochs",    "1", "--max-steps",          "12",
                                            "--clip-norm", "1", "--accumulation-steps", "2"};
  for (const char* const recipe : {"gpt", "transformer"}) {
    const auto expected = on_processors(recipe, options);
    for (const auto& [flag, way] : {std::pair{"--shard", "none"},
                                    {"--shard", "optimizer"},
                                    {"--shard", "gradients"},
                                    {"--shard", "parameters"},
                                    {"--mesh", "tp=2"},
                                    {"--mesh", "pp=2"}}) {
      auto divided = options;
      divided.insert(divided.end(), {flag, way});
      expect_near(on_gpu(2, recipe, divided), expected, std::string(recipe) + " " + way);
    }
  }
}

// Of many megabytes: more than there are buffers for.
TEST_P(DividedOnGpus, LearnInManyBuckets) {
  const std::vector<std::string> options = {"--epochs", "1",     "--max-steps",          "8",
                                            "--lr",     "0.001", "--embedding-size",     "384",
                                            "--layers", "6",     "--accumulation-steps", "2"};
  const auto expected = on_processors("gpt", options);
  for (const char* const way : {"optimizer", "gradients", "parameters"}) {
    auto divided = options;
    divided.insert(divided.end(), {"--shard", way});
    expect_near(on_gpu(2, "gpt", divided), expected, way);
  }
}

TEST_P(DividedOnGpus, LearnIn16Bits) {
  const std::vector<std::string> options = {"--epochs", "1",           "--max-steps",
                                            "12",       "--precision", "bfloat16"};
  const auto expected = on_processors("gpt", options);
  for (const char* const way : {"gradients", "parameters"}) {
    auto divided = options;
    divided.insert(divided.end(), {"--shard", way});
    EXPECT_NEAR(on_gpu(2, "gpt", divided).at("test_loss").get<double>(),
                expected.at("test_loss").get<double>(), 0.1)
        << way;
  }
}

TEST_P(DividedOnGpus, CheckpointsGoToProcessorsAndBack) {
  const auto expected = on_processors("gpt", {"--epochs", "1", "--max-steps", "12"});
  const auto first = [&](const char* steps, std::vector<std::string> more) {
    more.insert(more.end(), {"--epochs", "1", "--max-steps", steps, "--checkpoint-dir",
                             checkpoints_, "--resume"});
    return more;
  };
  for (const auto& [flag, way] : {std::pair{"--shard", "optimizer"},
                                  {"--shard", "parameters"},
                                  {"--mesh", "tp=2"},
                                  {"--mesh", "pp=2"}}) {
    std::filesystem::remove_all(checkpoints_);
    on_gpu(2, "gpt", first("4", {flag, way}));
    on_processors("gpt", first("8", {}));
    expect_near(on_gpu(2, "gpt", first("12", {flag, way})), expected, way);
    EXPECT_TRUE(contains(said_, "resuming after step 8 of epoch 1")) << said_;
  }
}

INSTANTIATE_TEST_SUITE_P(Through, DividedOnGpus, ::testing::Values("host", "nccl"),
                         [](const auto& transport) { return std::string(transport.param); });

}  // namespace
}  // namespace sullae::testing
