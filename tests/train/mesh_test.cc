// `sullae train --mesh`: models of whose layers ranks have parts are those that one process trains.
#include <fmt/format.h>

#include "support/errors.h"
#include "support/ranks.h"
#include "train/models/transformer_block.h"
#include "train/options.h"
#include "train/transformers.h"

namespace sullae::testing {
namespace {

using namespace train;

using TrainedMesh = Transformers;

TEST_F(TrainedMesh, IsWhatOneProcessTrains) {
  for (const char* const recipe : {"gpt", "transformer"}) {
    const auto alone = trained(1, recipe, {"--epochs", "1", "--clip-norm", "0.5"});
    struct Case {
      int ranks;
      const char* mesh;
      const char* parts;
      const char* shard = "none";
    };
    // Heads that divide evenly, and such that do not.
    for (const auto& [ranks, mesh, parts, shard] : {Case{3, "tp=3", "1"},
                                                    {4, "dp=2,tp=2", "2", "optimizer"},
                                                    {4, "tp=2", "1", "parameters"}}) {
      const auto report = trained(ranks, recipe,
                                  {"--epochs", "1", "--mesh", mesh, "--accumulation-steps", parts,
                                   "--shard", shard, "--clip-norm", "0.5"});
      expect_near(report, alone, fmt::format("{} with {} {}", recipe, mesh, shard));
      EXPECT_EQ(report.at("parameters"), alone.at("parameters"));
      EXPECT_EQ(report.at("world_size"), ranks);
    }
  }
}

// Ranks that have the same samples drop the same: what one process drops.
TEST_F(TrainedMesh, DropsWhatOneProcessDrops) {
  const auto alone = trained(1, "gpt", {"--epochs", "2", "--dropout", "0.2"});
  expect_near(trained(2, "gpt", {"--epochs", "2", "--dropout", "0.2", "--mesh", "tp=2"}), alone,
              "tp=2");
}

// Gradients in 16 bits, weights updated in float32, a norm of all.
TEST_F(TrainedMesh, TrainsIn16Bits) {
  expect_to_train_in_16_bits({"--mesh", "tp=2", "--shard", "gradients"});
}

TEST_F(TrainedMesh, CheckpointsGoFromAnyRanksToAny) {
  const Job divided = {4, "--mesh", "dp=2,tp=2"};
  expect_checkpoints_to_go(
      {{{8, "--shard=parameters", "--mesh=dp=2,shard=2,tp=2"}, {1, "--shard", "none"}},
       {{2, "--shard", "gradients"}, divided},
       {divided, {6, "--shard=parameters", "--mesh=tp=3"}},
       {{4, "--shard=gradients", "--mesh=tp=2"}, {3, "--shard", "parameters"}}});
}

TEST_F(TrainedMesh, CheckpointsGoByWayOfRank0WhereOthersDoNotSeeThem) {
  const auto trained_apart = [&](std::vector<std::string> options) {
    options.insert(options.end(), {"--epochs", "1", "--mesh", "tp=2"});
    const auto result = run_program(apart(transformer_words(2, "gpt", options)));
    EXPECT_EQ(result.exit_code, 0) << result.standard_error;
    said_ = result.standard_output;
    return read_json(report_);
  };
  const auto expected = trained_apart({});
  trained_apart({"--checkpoint-dir", "checkpoints", "--max-steps", "20"});
  const auto report = trained_apart({"--checkpoint-dir", "checkpoints", "--resume"});
  EXPECT_TRUE(contains(said_, "resuming after step 20 of epoch 1")) << said_;
  EXPECT_EQ(report.at("train_loss"), expected.at("train_loss"));
  EXPECT_FALSE(std::filesystem::exists(directory_.path() / "apart" / "1" / "checkpoints"));
}

TEST_F(TrainedMesh, GoesOnEqualToTheBit) {
  expect_to_go_on_equal_to_the_bit(4, {"--mesh", "tp=2"});
}

// What is whole on each of the ranks that divide layers stays the same there, wherever it lies in
// their buckets: what was tested is what is saved.
TEST_F(TrainedMesh, KeepsWhatIsWholeEqual) {
  for (const char* const shard : {"none", "gradients"}) {
    std::filesystem::remove_all(checkpoints_);
    const auto test_loss = [&] {
      auto words = transformer_words(
          6, "gpt",
          {"--mesh", "dp=3,tp=2", "--heads", "3", "--embedding-size", "24", "--epochs", "1",
           "--shard", shard, "--batch-size", "9", "--checkpoint-dir", checkpoints_, "--resume"});
      const auto result = run_program(words, {{"SULLAE_TRANSPORT", "ucx"}});
      EXPECT_EQ(result.exit_code, 0) << result.standard_error;
      said_ = result.standard_output;
      return read_json(report_).at("test_loss");
    };
    const auto trained = test_loss();
    EXPECT_EQ(test_loss(), trained) << shard;
    EXPECT_TRUE(contains(said_, "nothing is left to train")) << said_;
  }
}

TEST_F(TrainedMesh, IsServedAndTrainedFurther) {
  expect_to_be_served_and_trained_further(4, {"--mesh", "tp=2"},
                                          {{2, {"--mesh", "tp=2"}},
                                           {3, {"--mesh", "tp=3"}},
                                           {4, {"--mesh", "tp=2", "--shard", "parameters"}}});
}

TEST_F(TrainedMesh, TakesMemoryOfParts) { expect_memory_of_parts("--mesh", "dp=4", "tp=4"); }

TEST_F(TrainedMesh, MistakesAreTold) {
  const auto result = train(2, {"--mesh", "tp=2"});
  EXPECT_NE(result.exit_code, 0);
  EXPECT_TRUE(contains(result.standard_error, "--mesh tp=2: the model has no layers in parts"))
      << result.standard_error;
  // Another model's checkpoint.
  trained(1, "gpt", {"--epochs", "1", "--max-steps", "2", "--checkpoint-dir", checkpoints_});
  const std::vector<std::vector<std::string>> others = {
      {"--layers", "3"}, {"--context", "10"}, {"--embedding-size", "24"}};
  for (const auto& other : others) {
    std::vector<std::string> options = {"--mesh", "tp=2", "--checkpoint-dir", checkpoints_,
                                        "--resume"};
    options.insert(options.end(), other.begin(), other.end());
    EXPECT_TRUE(contains(refused(2, "gpt", options),
                         "--resume: the checkpoint is of a model with " + other[0]));
  }
}

TEST(MeshOptions, MistakesAreTold) {
  const auto error = [](int ranks, TrainOptions options) {
    return error_of<InputError>([&] { check_options(options, ranks); });
  };
  const auto mesh = [&](int ranks, const std::string& text) {
    return error(ranks, {.batch_size = 8, .mesh = text});
  };
  EXPECT_EQ(mesh(2, "tp"),
            "--mesh tp: expected dimensions and how many ranks each has, as in dp=2,tp=4");
  EXPECT_EQ(mesh(2, "up=2"),
            "--mesh up=2: there is no dimension 'up': expected dp (samples), pp (layers one behind "
            "the other), tp (parts of layers) and shard (parts of parameters, with --shard "
            "parameters)");
  EXPECT_EQ(mesh(6, "pp=2,tp=2"), "--mesh pp=2,tp=2: there are 6 ranks: expected a multiple of 4");
  EXPECT_EQ(mesh(2, "tp=1,tp=2"), "--mesh tp=1,tp=2: has 'tp' twice");
  EXPECT_EQ(mesh(2, "dp=2,tp=2"), "--mesh dp=2,tp=2: there are 2 ranks: expected 4");
  EXPECT_EQ(mesh(3, "tp=2"), "--mesh tp=2: there are 3 ranks: expected a multiple of 2");
  EXPECT_EQ(mesh(1, "tp=2"), "--mesh tp=2: there is 1 rank: expected a multiple of 2");
  const std::string parts = "--mesh tp=2: ";
  EXPECT_EQ(error(2, {.batch_size = 8, .mesh = "tp=2", .local_sgd = "4"}),
            parts + "does not go with --local-sgd");
  EXPECT_EQ(error(2, {.batch_size = 8, .mesh = "tp=2", .scale_up = 2}),
            parts + "does not go with --scale-up");
  EXPECT_TRUE(contains(error(2, {.batch_size = 8, .compression = "topk:0.1", .mesh = "tp=2"}),
                       "tp does not go with --compression topk:0.1"));
  check_options({.batch_size = 8, .compression = "bfloat16", .mesh = "tp=2"}, 2);
  check_options({.batch_size = 8, .compression = "topk:0.1", .mesh = "pp=2"}, 2);
  EXPECT_EQ(error(2, {.batch_size = 8, .channels_last = true, .mesh = "tp=2"}),
            parts + "does not go with --channels-last");
  EXPECT_TRUE(contains(error_of<InputError>([] { check_elastic({.mesh = "tp=2"}); }),
                       "--mesh: an elastic job (--min-np, --max-np) would lose parts"));
  EXPECT_TRUE(contains(error_of<InputError>([] { check_elastic({.mesh = "dp=2"}); }),
                       "--mesh dp=2: says how many ranks there are"));
  EXPECT_EQ(error(2, {.batch_size = 8, .optimizer = "lamb", .mesh = "tp=2"}),
            parts + "--optimizer lamb needs norms of whole tensors, and a rank has a part of them");
  // Ranks that have the same samples do not divide them.
  check_options({.batch_size = 2, .mesh = "dp=2,tp=4"}, 8);
  check_options({.batch_size = 2, .mesh = "tp=2,pp=2"}, 8);
  // Nothing is in parts.
  check_options({.batch_size = 8, .optimizer = "lamb", .shard = "none", .mesh = "dp=2"}, 2);
  EXPECT_TRUE(contains(mesh(16, "tp=1"), "--batch-size 8: 16 data-parallel ranks"));
}

TEST(MeshOptions, HeadsAndLayersGoRound) {
  run_ranks({.size = 3}, [](World& world) {
    const Division division{.tensor = world};
    EXPECT_EQ(error_of<InputError>([&] { TransformerStack{.size = 8, .heads = 2}.make(division); }),
              "--heads 2: 3 ranks divide them: expected at least one a rank");
    const Division stages{.stages = world};
    EXPECT_EQ(error_of<InputError>(
                  [&] { TransformerStack{.size = 8, .heads = 2, .layers = 2}.make(stages); }),
              "--layers 2: 3 ranks have them one behind the other: expected at least 3");
  });
}

}  // namespace
}  // namespace sullae::testing
