// `sullae run --ps … sullae train`.
#include <torch/torch.h>

#include <csignal>

#include "sullae/torch/checkpoint.h"
#include "support/content_of.h"
#include "support/errors.h"
#include "train/description.h"
#include "train/fixture.h"
#include "train/small_texts.h"
#include "train/task.h"

namespace sullae::testing {
namespace {

class TrainOnServers : public Train {
 protected:
  ProgramResult train_with(const std::vector<std::string>& flags, int ranks,
                           std::vector<std::string> options) {
    std::filesystem::remove(report_);
    options.insert(options.end(), {"--report", report_.string()});
    auto all = words(ranks, std::move(options), recipe_);
    all.insert(all.begin() + 2, flags.begin(), flags.end());
    return run_program(all);
  }
  nlohmann::json trained(const std::vector<std::string>& flags, int ranks,
                         const std::vector<std::string>& options) {
    const auto result = train_with(flags, ranks, options);
    EXPECT_EQ(result.exit_code, 0) << result.standard_error;
    said_ = result.standard_output;
    return read_json(report_);
  }
  std::string recipe_ = "mnist";
  std::string said_;
  const HiddenGpus hidden_;
};

// Of texts, whose words' vectors are a table.
class TrainTables : public TrainOnServers {
 protected:
  TrainTables() {
    recipe_ = "text";
    write_small_texts(texts_);
  }
  std::vector<std::string> text_options(std::vector<std::string> more = {}) const {
    more.insert(more.end(), {"--data", texts_.string(), "--epochs", "3", "--batch-size", "20",
                             "--lr", "0.05", "--embedding-size", "8", "--dropout", "0"});
    return more;
  }

  std::filesystem::path texts_ = directory_.path() / "texts";
  const std::vector<std::string> sparse_{"--ps-mode", "ps-sparse"};
};

TEST_F(TrainOnServers, WithoutStalenessLearnsWhatRanksLearn) {
  for (const char* optimizer : {"sgd", "adam", "adamw"}) {
    const std::vector<std::string> options = {"--epochs", "2", "--optimizer", optimizer};
    const auto expected = trained({}, 2, options);
    const auto report = trained({"--ps", "2"}, 2, options);
    EXPECT_EQ(report["steps"], expected["steps"]);
    EXPECT_NEAR(report["train_loss"].get<double>(), expected["train_loss"].get<double>(), 2e-3)
        << optimizer;
    EXPECT_NEAR(report["test_loss"].get<double>(), expected["test_loss"].get<double>(), 5e-3)
        << optimizer;
  }
}

TEST_F(TrainOnServers, SaysHowStaleGradientsWere) {
  const auto report = trained({"--ps", "2", "--staleness", "4"}, 3, {"--epochs", "3"});
  EXPECT_GT(report["test_accuracy"].get<double>(), 0.9);
  EXPECT_TRUE(contains(said_, "staleness: rank 0 was ")) << said_;
}

// With servers and without, on any ranks.
TEST_F(TrainOnServers, CheckpointsAreThoseOfRanks) {
  for (const char* optimizer : {"sgd", "adam"}) {
    const std::vector<std::string> options = {"--epochs", "3", "--optimizer", optimizer};
    const auto expected = trained({"--ps", "2"}, 2, options);
    const auto part = [&](const std::vector<std::string>& flags, int ranks, const char* steps) {
      auto all = options;
      all.insert(all.end(), {"--checkpoint-dir", checkpoints_.string(), "--checkpoint-steps", "16",
                             "--resume", "--max-steps", steps});
      return trained(flags, ranks, all);
    };
    std::filesystem::remove_all(checkpoints_);
    part({"--ps", "2"}, 2, "50");
    part({"--ps", "1"}, 1, "70");
    EXPECT_TRUE(contains(said_, "resuming after step 16 of epoch 2")) << said_;
    part({}, 2, "90");
    const auto report = part({"--ps", "3"}, 2, "0");
    EXPECT_TRUE(contains(said_, "resuming after step 22 of epoch 3")) << said_;
    EXPECT_EQ(report["steps"], expected["steps"]);
    EXPECT_NEAR(report["test_loss"].get<double>(), expected["test_loss"].get<double>(), 5e-3)
        << optimizer;
  }
}

// What servers hold is of another moment.
TEST_F(TrainOnServers, ACheckpointWinsOverWhatServersHold) {
  const auto held = directory_.path() / "held";
  const std::vector<std::string> options = {"--checkpoint-dir", checkpoints_.string(), "--resume",
                                            "--optimizer", "adam"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), options.begin(), options.end());
    return more;
  };
  trained({"--ps", "1", "--ps-dir", held.string()}, 1,
          {"--epochs", "1", "--max-steps", "2", "--optimizer", "adam"});
  trained({}, 2, with({"--epochs", "2"}));
  const auto copy = directory_.path() / "copy";
  std::filesystem::copy(checkpoints_, copy);
  const auto expected = trained({}, 2, with({"--epochs", "3"}));
  std::filesystem::remove_all(checkpoints_);
  std::filesystem::rename(copy, checkpoints_);
  const auto report = trained({"--ps", "1", "--ps-dir", held.string()}, 2, with({"--epochs", "3"}));
  EXPECT_TRUE(contains(said_, "resuming after epoch 2")) << said_;
  EXPECT_NEAR(report["test_loss"].get<double>(), expected["test_loss"].get<double>(), 5e-3);
}

// The process that is so many-th among the job's ranks.
pid_t rank_of_job(const std::string& data, int rank) {
  const std::string variable = "SULLAE_RANK=" + std::to_string(rank) + std::string(1, '\0');
  for (const pid_t pid : processes_with(data)) {
    if (contains(content_of("/proc/" + std::to_string(pid) + "/environ"), variable)) return pid;
  }
  return -1;
}

TEST_F(TrainOnServers, GoesOnWithoutARankThatIsKilled) {
  for (const char* staleness : {"0", "4", "-1"}) {
    auto all = words(4, {"--epochs", "12", "--log-interval", "1", "--report", report_.string()});
    all.insert(all.begin() + 2, {"--ps", "2", "--staleness", staleness});
    Program program(all);
    // One after the other, and as it comes, together.
    for (const auto& [moment, rank] :
         {std::pair{"epoch 2/12  step 3/", 2}, {"epoch 4/12  step 1/", 1}}) {
      ASSERT_TRUE(program.wait_for_output(moment)) << staleness;
      const pid_t pid = rank_of_job(mnist_.string(), rank);
      ASSERT_GT(pid, 0);
      ::kill(pid, SIGKILL);
    }
    const auto ended = program.wait();
    EXPECT_EQ(ended.exit_code, 0) << ended.standard_error;
    EXPECT_TRUE(contains(ended.standard_error, "; the other workers may go on"))
        << ended.standard_error;
    const auto report = read_json(report_);
    EXPECT_EQ(report["world_size"], 2);
    const auto& changes = report["world_changes"];
    ASSERT_GE(changes.size(), 1U);
    EXPECT_TRUE(contains(changes.front()["reason"].get<std::string>(), "has ended") ||
                contains(changes.front()["reason"].get<std::string>(), "have ended"))
        << changes;
    EXPECT_EQ(changes.back()["ranks"], 2) << changes;
    EXPECT_EQ(report["epochs"], 12) << report;
    EXPECT_GT(report["test_accuracy"].get<double>(), 0.9) << staleness;
  }
}

// They have averaged their gradients, and have no one else's.
TEST_F(TrainTables, EndWithARankThatIsKilled) {
  auto all = words(3, text_options({"--ps-mode", "ps-sparse", "--epochs", "2000"}), recipe_);
  all.insert(all.begin() + 2, {"--ps", "1"});
  Program program(all);
  ASSERT_TRUE(program.wait_for_output("epoch 2"));
  ::kill(rank_of_job(texts_.string(), 1), SIGKILL);
  const auto ended = program.wait();
  EXPECT_NE(ended.exit_code, 0);
  EXPECT_TRUE(contains(ended.standard_error, "rank 1 has ended") ||
              contains(ended.standard_error, "rank 1 (process"))
      << ended.standard_error;
}

TEST_F(TrainTables, AreThoseOfTheSameServersAndWords) {
  const auto held = directory_.path() / "held";
  const std::vector<std::string> flags{"--ps-dir", held.string()};
  const auto run = [&](const char* servers, const std::vector<std::string>& more) {
    auto all = flags;
    all.insert(all.end(), {"--ps", servers});
    auto options = text_options({"--ps-mode", "ps-sparse", "--max-steps", "3"});
    options.insert(options.end(), more.begin(), more.end());
    return train_with(all, 1, options);
  };
  EXPECT_EQ(run("2", {}).exit_code, 0);
  EXPECT_EQ(run("2", {}).exit_code, 0);
  for (const auto& result : {run("1", {}), run("2", {"--min-count", "40"})}) {
    EXPECT_NE(result.exit_code, 0);
    EXPECT_TRUE(contains(result.standard_error,
                         "are others than those in --ps-dir: expected the same model, and as many "
                         "servers in the same order"))
        << result.standard_error;
  }
}

TEST_F(TrainTables, WithoutStalenessLearnWhatRanksLearn) {
  for (const char* recipe : {"text", "lstm"}) {
    recipe_ = recipe;
    for (const char* optimizer : {"sgd", "adam"}) {
      auto options = text_options({"--optimizer", optimizer, "--momentum", "0"});
      const auto expected = trained({}, 2, options);
      options.insert(options.end(), sparse_.begin(), sparse_.end());
      const auto report = trained({"--ps", "2"}, 2, options);
      for (const char* loss : {"train_loss", "test_loss"})
        EXPECT_NEAR(report[loss].get<double>(), expected[loss].get<double>(), 1e-4)
            << recipe << " " << optimizer << " " << loss;
    }
  }
}

TEST_F(TrainTables, LearnWithAnyStaleness) {
  for (const char* staleness : {"4", "-1"}) {
    const auto report = trained({"--ps", "2", "--staleness", staleness}, 3,
                                text_options({"--ps-mode", "ps-sparse"}));
    EXPECT_GT(report["test_accuracy"].get<double>(), 0.95) << staleness;
    EXPECT_TRUE(contains(said_, "staleness: rank 0 was ")) << said_;
  }
}

// With tables on servers and without, on any ranks and servers; and what is exported is the whole
// model.
TEST_F(TrainTables, AreInCheckpointsAsThoseOfRanks) {
  for (const char* optimizer : {"sgd", "adam"}) {
    const auto part = [&](const std::vector<std::string>& flags, int ranks, const char* steps) {
      auto all = text_options({"--optimizer", optimizer, "--momentum", "0", "--checkpoint-dir",
                               checkpoints_.string(), "--checkpoint-steps", "8", "--resume",
                               "--max-steps", steps});
      if (!flags.empty()) all.insert(all.end(), sparse_.begin(), sparse_.end());
      return trained(flags, ranks, all);
    };
    const auto expected =
        trained({}, 2, text_options({"--optimizer", optimizer, "--momentum", "0"}));
    std::filesystem::remove_all(checkpoints_);
    part({"--ps", "2"}, 2, "24");
    part({"--ps", "1"}, 1, "32");
    EXPECT_TRUE(contains(said_, "resuming after step 4 of epoch 2")) << said_;
    part({}, 2, "40");
    const auto report = part({"--ps", "3"}, 2, "0");
    EXPECT_TRUE(contains(said_, "resuming after epoch 2")) << said_;
    EXPECT_EQ(report["steps"], expected["steps"]);
    EXPECT_NEAR(report["test_loss"].get<double>(), expected["test_loss"].get<double>(), 1e-3)
        << optimizer;
  }
}

// Whole, though no rank had it while it trained.
TEST_F(TrainTables, AreInExportedModels) {
  const auto exported = [&](const std::string& name, const std::vector<std::string>& flags,
                            std::vector<std::string> options) {
    options.insert(options.end(),
                   {"--export", (directory_.path() / "models").string(), "--export-name", name});
    trained(flags, 2, text_options(options));
    const auto file = directory_.path() / "models" / name / "1" / "model.ckpt";
    auto model =
        train::find_recipe("text").model(train::description_of(read_checkpoint_metadata(file), ""));
    load_checkpoint(file, *model);
    return model;
  };
  const auto expected = exported("ranks", {}, {});
  const auto model = exported("servers", {"--ps", "2"}, sparse_);
  for (const auto& item : expected->named_parameters())
    EXPECT_TRUE(torch::allclose(model->named_parameters()[item.key()], item.value(), 0, 1e-3))
        << item.key();
}

TEST_F(TrainTables, SayWhatDoesNotGoWithThem) {
  const std::string sparse = "--ps-mode ps-sparse: ";
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"--precision", "bfloat16"}, sparse + "servers hold float32"},
      {{"--clip-norm", "1"}, sparse + "servers have a part of the norm: add --clip-norm 0"},
      {{"--weight-decay", "0.1"}, sparse + "rows without a gradient would not decay"},
      {{"--local-sgd", "4"}, sparse + "does not go with --local-sgd"},
      {{"--scale-up", "2"}, sparse + "does not go with --scale-up"},
  };
  for (const auto& [options, message] : cases) {
    auto all = text_options(options);
    all.insert(all.end(), sparse_.begin(), sparse_.end());
    const auto result = train_with({"--ps", "1"}, 1, all);
    EXPECT_NE(result.exit_code, 0);
    EXPECT_TRUE(contains(result.standard_error, "parameter servers (sullae run --ps): " + message))
        << result.standard_error;
  }
  const auto dense = train_with({"--ps", "1"}, 1, text_options());
  EXPECT_TRUE(contains(dense.standard_error,
                       "the model has a table with sparse gradients: add --ps-mode ps-sparse"))
      << dense.standard_error;
  const auto none = train_with({}, 1, text_options({"--ps-mode", "ps-sparse"}));
  EXPECT_TRUE(contains(none.standard_error,
                       "--ps-mode ps-sparse: there are no parameter servers: expected sullae run"))
      << none.standard_error;
  recipe_ = "mnist";
  const auto images = train_with({"--ps", "1"}, 1, sparse_);
  EXPECT_TRUE(contains(images.standard_error, sparse + "the model has no table"))
      << images.standard_error;
}

TEST_F(TrainOnServers, SaysWhatDoesNotGoWithThem) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"--shard", "optimizer"}, "they hold the optimizer: --shard divides it"},
      {{"--local-sgd", "4"}, "they hold the weights: --local-sgd averages"},
      {{"--compression", "float16"}, "do not go with --compression"},
      {{"--precision", "bfloat16"}, "hold float32: do not go with --precision"},
      {{"--clip-norm", "1", "--weight-decay", "0.1"},
       "do not clip: add --clip-norm 0; decay all parameters or none: add --decay-all, or "
       "--weight-decay 0"},
      {{"--optimizer", "lamb"}, "have the optimizers sgd, adam and adamw"},
  };
  for (const auto& [options, message] : cases) {
    const auto result = train_with({"--ps", "1"}, 1, options);
    EXPECT_NE(result.exit_code, 0);
    EXPECT_TRUE(contains(result.standard_error, "parameter servers (sullae run --ps): " + message))
        << result.standard_error;
  }
}

}  // namespace
}  // namespace sullae::testing
