// `sullae train` of small transformers, for tests of how they are divided among ranks.
#pragma once

#include <optional>

#include "support/errors.h"
#include "train/fixture.h"
#include "train/small_prose.h"
#include "train/small_texts.h"

namespace sullae::testing {

class Transformers : public Train {
 protected:
  Transformers() {
    write_small_prose(path("prose"));
    write_small_texts(path("texts"));
  }
  std::filesystem::path path(const std::string& name) const { return directory_.path() / name; }

  std::vector<std::string> transformer_words(int ranks, const std::string& recipe,
                                             std::vector<std::string> options) {
    std::vector<std::string> all = {
        "--batch-size", "8",   "--embedding-size", "16", "--heads", "4",    "--layers", "2",
        "--pieces",     "300", "--dropout",        "0",  "--lr",    "0.01", "--report", report_};
    const bool writes = recipe == "gpt";
    all.insert(all.end(), {"--data", path(writes ? "prose" : "texts")});
    all.insert(all.end(), {writes ? "--context" : "--max-words", "12"});
    all.insert(all.end(), options.begin(), options.end());
    return words(ranks, std::move(all), recipe);
  }
  virtual ProgramResult run(int ranks, const std::string& recipe,
                            std::vector<std::string> options) {
    return run_program(transformer_words(ranks, recipe, std::move(options)));
  }
  nlohmann::json trained(int ranks, const std::string& recipe, std::vector<std::string> options) {
    std::filesystem::remove(report_);
    const auto result = run(ranks, recipe, std::move(options));
    EXPECT_EQ(result.exit_code, 0) << result.standard_error;
    said_ = result.standard_output;
    return result.exit_code == 0 ? read_json(report_) : nlohmann::json{};
  }
  std::string refused(int ranks, const std::string& recipe, std::vector<std::string> options) {
    const auto result = run(ranks, recipe, std::move(options));
    EXPECT_NE(result.exit_code, 0);
    return result.standard_error;
  }
  // With dropout, of gpt on `ranks`, interrupted after 20 steps.
  void expect_to_go_on_equal_to_the_bit(int ranks, std::vector<std::string> options) {
    options.insert(options.end(), {"--epochs", "2", "--dropout", "0.1"});
    const auto expected = trained(ranks, "gpt", options);
    options.insert(options.end(), {"--checkpoint-dir", checkpoints_, "--resume"});
    auto first = options;
    first.insert(first.end(), {"--max-steps", "20"});
    trained(ranks, "gpt", first);
    // A damaged one is passed over, and what ranks have meanwhile is not taken for it.
    const auto newest = checkpoints_ / "gpt-step-000000999.ckpt";
    std::filesystem::copy_file(checkpoints_ / "gpt-step-000000020.ckpt", newest);
    std::filesystem::resize_file(newest, std::filesystem::file_size(newest) / 2);
    const auto report = trained(ranks, "gpt", options);
    EXPECT_TRUE(contains(said_, "resuming after step 20 of epoch 1")) << said_;
    EXPECT_EQ(report.at("train_loss"), expected.at("train_loss"));
    EXPECT_EQ(report.at("test_loss"), expected.at("test_loss"));
  }
  // What gpt learnt on `ranks` writes, and is begun from on as many ranks as each of `ways` wants,
  // and on one.
  void expect_to_be_served_and_trained_further(
      int ranks, std::vector<std::string> options,
      const std::vector<std::pair<int, std::vector<std::string>>>& ways) {
    const auto models = path("models");
    options.insert(options.end(), {"--epochs", "6", "--export", models});
    trained(ranks, "gpt", options);
    EXPECT_TRUE(contains(said_, "exported as ")) << said_;
    const auto written = run_program({sullae_program(), "generate", models / "gpt", "--prompt",
                                      "two three", "--temperature", "0", "--max-tokens", "4"});
    EXPECT_EQ(written.standard_output, "two three four five six seven\n") << written.standard_error;
    // Where a model has begun it has no more to learn.
    const auto loss = [&](int on, const std::vector<std::string>& way) {
      std::vector<std::string> all = {
          "--epochs", "1",    "--max-steps", "1",
          "--lr",     "1e-9", "--init-from", models / "gpt" / "1" / "model.ckpt"};
      all.insert(all.end(), way.begin(), way.end());
      return trained(on, "gpt", all).at("test_loss").get<double>();
    };
    const double whole = loss(1, {});
    EXPECT_LT(whole, 0.3);
    for (const auto& [on, way] : ways) EXPECT_NEAR(loss(on, way), whole, 1e-4) << on;
  }
  // Of gpt, interrupted after 20 steps on some ranks, and gone on with on others.
  struct Job {
    int ranks;
    const char* how;
    const char* value;
  };
  void expect_checkpoints_to_go(const std::vector<std::pair<Job, Job>>& ways) {
    const auto expected = trained(1, "gpt", {"--epochs", "1"});
    const auto part = [&](const Job& job, const char* steps) {
      return trained(job.ranks, "gpt",
                     {"--epochs", "1", "--max-steps", steps, "--checkpoint-dir", checkpoints_,
                      "--resume", "--accumulation-steps", "2", job.how, job.value});
    };
    for (const auto& [from, to] : ways) {
      SCOPED_TRACE(std::string(from.value) + " to " + to.value);
      std::filesystem::remove_all(checkpoints_);
      part(from, "20");
      expect_near(part(to, "0"), expected, to.value);
      EXPECT_TRUE(contains(said_, "resuming after step 20 of epoch 1")) << said_;
    }
  }
  // Of gpt on four ranks, interrupted after 20 steps; and an evaluator with the same options.
  void expect_to_train_in_16_bits(const std::vector<std::string>& how) {
    std::vector<std::string> options = {"--epochs", "2", "--precision", "bfloat16"};
    const auto alone = trained(1, "gpt", options);
    options.insert(options.end(), {"--checkpoint-dir", checkpoints_, "--resume"});
    options.insert(options.end(), how.begin(), how.end());
    auto first = options;
    first.insert(first.end(), {"--max-steps", "20"});
    trained(4, "gpt", first);
    const auto report = trained(4, "gpt", options);
    EXPECT_TRUE(contains(said_, "resuming after step 20 of epoch 1")) << said_;
    EXPECT_NEAR(report.at("test_loss").get<double>(), alone.at("test_loss").get<double>(), 0.1);
    options.emplace_back("--evaluator");
    const auto tested = run(1, "gpt", options);
    EXPECT_EQ(tested.exit_code, 0) << tested.standard_error;
  }
  // Of 20 million parameters, with Adam, one rank has 320 MB, and what four have is 80 MB each:
  // from the first to the last step.
  void expect_memory_of_parts(const std::string& flag, const std::string& whole_way,
                              const std::string& parts_way) {
    const auto peak = [&](const std::string& way, const char* size) {
      return trained(4, "gpt",
                     {"--epochs", "1", "--max-steps", "2", flag, way, "--embedding-size", size,
                      "--layers", "8", "--checkpoint-dir", checkpoints_ / (way + size), "--export",
                      path("models") / (way + size)})
          .at("peak_memory")
          .get<double>();
    };
    const double whole = peak(whole_way, "448") - peak(whole_way, "16");
    const double parts = peak(parts_way, "448") - peak(parts_way, "16");
    EXPECT_GT(whole, 300e6);
    EXPECT_LT(parts, whole / 2);
  }
  static void expect_near(const nlohmann::json& one, const nlohmann::json& other,
                          const std::string& what) {
    EXPECT_EQ(one.at("steps"), other.at("steps")) << what;
    for (const char* const name : {"train_loss", "test_loss"})
      EXPECT_NEAR(one.at(name).get<double>(), other.at(name).get<double>(), 2e-3) << what << name;
  }

  std::string said_;
  std::optional<HiddenGpus> hidden_{std::in_place};
};

}  // namespace sullae::testing
