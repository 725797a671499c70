// Recipes from outside: other data than digits, settings from files, and the ways of training.
#include <fstream>

#include "sullae/data.h"
#include "support/errors.h"
#include "train/fixture.h"
#include "train/small_images.h"
#include "train/small_texts.h"

namespace sullae::testing {
namespace {

class Recipes : public Train {
 protected:
  ProgramResult run_train(std::vector<std::string> options) {
    options.insert(options.begin(), {sullae_program(), "train"});
    return run_program(options);
  }
  std::filesystem::path path(const std::string& name) const { return directory_.path() / name; }

  // Images of two classes that differ in colour.
  std::filesystem::path write_images(int count, bool with_damage = false) {
    data::TarWriter tar(path("images.tar"));
    for (int i = 0; i < count; ++i) {
      const bool red = i % 2 == 0;
      auto jpeg = red_or_blue(i);
      if (with_damage && i == 5) jpeg = "this is no image";
      tar.write((red ? "red/" : "blue/") + std::to_string(i) + ".jpg", jpeg);
    }
    tar.close();
    return path("images.tar");
  }
};

TEST_F(Recipes, ResNetLearnsFromATarOfImages) {
  const auto result = run_program({sullae_program(),
                                   "run",
                                   "-np",
                                   "2",
                                   "--cpus-per-rank",
                                   "1",
                                   sullae_program(),
                                   "train",
                                   "resnet18",
                                   "--data",
                                   write_images(60),
                                   "--epochs",
                                   "2",
                                   "--batch-size",
                                   "12",
                                   "--lr",
                                   "0.02",
                                   "--warmup-epochs",
                                   "0",
                                   "--sync-batch-norm",
                                   "--half-size-epochs",
                                   "1",
                                   "--report",
                                   report_});
  ASSERT_EQ(result.exit_code, 0) << result.standard_error;
  EXPECT_TRUE(contains(result.standard_output, "images of 2 classes")) << result.standard_output;
  EXPECT_TRUE(contains(result.standard_output, "a tenth held out for testing"));
  EXPECT_TRUE(contains(result.standard_output, "16 x 16 pixels"));
  EXPECT_GT(read_json(report_).at("test_accuracy").get<double>(), 0.6);
}

TEST_F(Recipes, DamagedImagesEndTheRunOrAreCounted) {
  const auto file = write_images(60, /*with_damage=*/true);
  const std::vector<std::string> words = {
      "resnet18",    "--data", file,           "--test-data", file,       "--epochs", "1",
      "--max-steps", "2",      "--batch-size", "30",          "--report", report_};
  const auto refused = run_train(words);
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_TRUE(contains(refused.standard_error, "images.tar, record 5 (blue/5.jpg), offset "))
      << refused.standard_error;
  EXPECT_TRUE(contains(refused.standard_error, "is no JPEG file, expected a JPEG file"));
  auto skipping = words;
  skipping.emplace_back("--skip-damaged");
  const auto counted = run_train(skipping);
  EXPECT_EQ(counted.exit_code, 0) << counted.standard_error;
  EXPECT_TRUE(contains(counted.standard_output, "damaged records left out"))
      << counted.standard_output;
  EXPECT_GE(read_json(report_).at("damaged_records").get<int>(), 1);
}

// Texts are read by all ranks, and in one epoch only.
TEST_F(Recipes, DamagedTextsAreCountedOnce) {
  std::ofstream csv(path("texts.csv"));
  for (int i = 0; i < 200; ++i) csv << 1 + i % 2 << ",item " << i % 17 << "\n";
  csv << "1,a \"bare\" quote\n1,another \"bare\" quote\n";
  csv.close();
  const auto result =
      run_program(words(2,
                        {"--data", path("texts.csv"), "--epochs", "3", "--batch-size", "20",
                         "--skip-damaged", "--embedding-size", "8", "--report", report_},
                        "text"));
  ASSERT_EQ(result.exit_code, 0) << result.standard_error;
  EXPECT_EQ(read_json(report_).at("damaged_records"), 2);
}

TEST_F(Recipes, TextsComeFromAnyTable) {
  std::ofstream csv(path("news.csv"));
  for (int i = 0; i < 300; ++i) {
    csv << '"' << 1 + i % 3 << "\",\""
        << (i % 3 == 0 ? "Stocks, \"\"again\"\"" : (i % 3 == 1 ? "Goal!" : "New chip"))
        << "\",\"item " << i % 17 << "\"\n";
  }
  csv.close();
  // A rate at which an LSTM is steady on every processor.
  for (const auto& [model, rate] : {std::pair("text", "0.02"), std::pair("lstm", "0.002")}) {
    const auto result =
        run_train({model, "--data", path("news.csv"), "--epochs", "6", "--batch-size", "16", "--lr",
                   rate, "--embedding-size", "16", "--report", report_});
    ASSERT_EQ(result.exit_code, 0) << result.standard_error;
    EXPECT_TRUE(contains(result.standard_output, "3 classes")) << result.standard_output;
    EXPECT_GT(read_json(report_).at("test_accuracy").get<double>(), 0.95) << model;
  }
}

// Pieces of words, and gradients that are dense, and so may be divided among ranks.
TEST_F(Recipes, TransformersTrainTheSameOnAnyRanks) {
  write_small_texts(path("texts"));
  const auto train_on = [&](int ranks, std::vector<std::string> options) {
    options.insert(options.begin(), {"--data", path("texts"), "--epochs", "3", "--batch-size", "20",
                                     "--lr", "0.003", "--embedding-size", "16", "--heads", "2",
                                     "--pieces", "300", "--dropout", "0", "--report", report_});
    const auto result = run_program(words(ranks, std::move(options), "transformer"));
    EXPECT_EQ(result.exit_code, 0) << result.standard_error;
    EXPECT_TRUE(contains(result.standard_output, " pieces, 2 classes")) << result.standard_output;
    return read_json(report_);
  };
  const auto alone = train_on(1, {});
  EXPECT_GT(alone.at("test_accuracy").get<double>(), 0.9);
  for (const char* const shard : {"none", "gradients"}) {
    const auto report = train_on(2, {"--shard", shard});
    EXPECT_NEAR(report.at("train_loss").get<double>(), alone.at("train_loss").get<double>(), 2e-3)
        << shard;
  }
  EXPECT_GT(train_on(2, {"--precision", "bfloat16"}).at("test_accuracy").get<double>(), 0.9);
}

TEST_F(Recipes, ADamagedRowIsNamed) {
  std::ofstream(path("bad.csv")) << "1,good\n2,a \"bare\" quote\n";
  const auto result = run_train({"text", "--data", path("bad.csv")});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_TRUE(
      contains(result.standard_error, "bad.csv, record 1, line 2, offset 7, byte 5: a bare quote"))
      << result.standard_error;
}

TEST_F(Recipes, EveryWayOfTrainingLearns) {
  const std::vector<std::vector<std::string>> ways = {
      {"--local-sgd", "4"},
      {"--local-sgd", "epoch"},
      {"--scale-up", "2"},
      {"--accumulation-steps", "3"},
      {"--precision", "bfloat16"},
      {"--precision", "bfloat16", "--allreduce-precision", "float32", "--loss-scale", "128"},
      {"--optimizer", "sgd", "--nesterov", "--lr", "0.05", "--weight-decay", "1e-4",
       "--label-smoothing", "0.1"},
      {"--optimizer", "adamw", "--weight-decay", "0.01"},
      {"--optimizer", "lars", "--lr", "0.2", "--trust-coefficient", "0.02"},
      {"--optimizer", "lamb", "--lr", "0.01"},
      {"--lr-schedule", "polynomial", "--warmup-epochs", "1", "--lr", "0.002"},
      {"--scale-with-ranks", "--batch-size", "30", "--shuffle-buffer", "500"}};
  for (auto way : ways) {
    way.insert(way.end(), {"--epochs", "3", "--report", report_});
    const auto result = train(2, way);
    ASSERT_EQ(result.exit_code, 0) << way[0] << ' ' << way[1] << ": " << result.standard_error;
    EXPECT_GT(read_json(report_).at("test_accuracy").get<double>(), 0.7) << way[0] << ' ' << way[1];
  }
}

TEST_F(Recipes, SettingsComeFromAFileAndTheCommandLineCountsMore) {
  std::ofstream(path("run.toml"))
      << "# a comment\nepochs = 7\nlr = 0.25\noptimizer = 'sgd'\nnesterov = true\n"
         "no-overlap = true\nlocal-sgd = 4\nprefetch = 4\nskip-damaged = false\n";
  const auto printed =
      run_train({"mnist", "--config", path("run.toml"), "--lr", "0.5", "--print-config"});
  ASSERT_EQ(printed.exit_code, 0) << printed.standard_error;
  for (const char* line :
       {"epochs = 7\n", "lr = 0.5\n", "optimizer = 'sgd'\n", "nesterov = true\n",
        "no-overlap = true\n", "local-sgd = 4\n", "batch-size = 64\n", "decay-all = false\n"})
    EXPECT_TRUE(contains(printed.standard_output, line)) << line << "in\n"
                                                         << printed.standard_output;
  // What is printed is a file that gives the same.
  std::ofstream(path("merged.toml")) << printed.standard_output;
  EXPECT_EQ(run_train({"mnist", "--config", path("merged.toml"), "--print-config"}).standard_output,
            printed.standard_output);
  // Also of numbers that TOML does not write so.
  const auto odd = run_train({"mnist", "--lr", ".5", "--seed", "18446744073709551615", "--epochs",
                              "007", "--print-config"});
  std::ofstream(path("odd.toml")) << odd.standard_output;
  const auto again = run_train({"mnist", "--config", path("odd.toml"), "--print-config"});
  EXPECT_EQ(again.exit_code, 0) << again.standard_error;
  EXPECT_EQ(again.standard_output, odd.standard_output);
  // A recipe's defaults can be switched off.
  std::ofstream(path("off.toml")) << "nesterov = false\n";
  EXPECT_TRUE(
      contains(run_train({"resnet50", "--print-config"}).standard_output, "nesterov = true\n"));
  EXPECT_TRUE(contains(
      run_train({"resnet50", "--config", path("off.toml"), "--print-config"}).standard_output,
      "nesterov = false\n"));
}

TEST_F(Recipes, WrongSettingsInAFileAreNamedWithTheirLine) {
  const auto error = [&](const std::string& toml) {
    std::ofstream(path("run.toml")) << toml;
    const auto result = run_train({"mnist", "--config", path("run.toml"), "--print-config"});
    EXPECT_EQ(result.exit_code, 1);
    return result.standard_error;
  };
  EXPECT_TRUE(contains(error("epochs = 1\nepoch = 7\n"),
                       "run.toml, line 2: 'epoch' is not an option of mnist"));
  EXPECT_TRUE(contains(error("epochs = 'many'\n"), "run.toml, line 1: "));
  EXPECT_TRUE(
      contains(error("epochs = [1, 2]\n"), "line 1: epochs is neither a text nor a number"));
  EXPECT_TRUE(contains(error("nesterov = 3\n"), "line 1: nesterov = 3, expected true or false"));
  EXPECT_TRUE(contains(error("epochs = = 1\n"), "run.toml, line 1: "));
  const auto missing = run_train({"mnist", "--config", "/none.toml"});
  EXPECT_TRUE(contains(missing.standard_error, "/none.toml")) << missing.standard_error;
}

}  // namespace
}  // namespace sullae::testing
