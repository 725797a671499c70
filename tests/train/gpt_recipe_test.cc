// `sullae train gpt` and `sullae generate`, as users start them.
#include "support/errors.h"
#include "train/fixture.h"
#include "train/recipes/documents.h"
#include "train/small_prose.h"

namespace sullae::testing {
namespace {

class GptRecipe : public Train {
 protected:
  std::filesystem::path path(const std::string& name) const { return directory_.path() / name; }
  std::filesystem::path write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories(path(name).parent_path());
    std::ofstream(path(name)) << text;
    return path(name);
  }
  ProgramResult train_on(int ranks, std::vector<std::string> options) {
    options.insert(options.begin(),
                   {"--batch-size", "8", "--embedding-size", "16", "--heads", "2", "--layers", "2",
                    "--pieces", "400", "--context", "12", "--dropout", "0", "--report", report_});
    return run_program(words(ranks, std::move(options), "gpt"));
  }
  ProgramResult generate(std::vector<std::string> words) const {
    words.insert(words.begin(), {sullae_program(), "generate"});
    return run_program(words);
  }
};

TEST_F(GptRecipe, LearnsToWriteTheSameOnAnyRanks) {
  write_small_prose(path("prose"));
  const auto train = [&](int ranks, std::vector<std::string> options) {
    options.insert(options.end(), {"--data", path("prose"), "--epochs", "6", "--lr", "0.01"});
    const auto result = train_on(ranks, options);
    EXPECT_EQ(result.exit_code, 0) << result.standard_error;
    EXPECT_TRUE(contains(result.standard_output, " pieces, ")) << result.standard_output;
    return read_json(report_);
  };
  const auto alone = train(1, {});
  // Words in any order would leave more than 7.
  EXPECT_LT(alone.at("test_perplexity").get<double>(), 1.3);
  for (const auto& options : {std::vector<std::string>{}, {"--shard", "gradients"}}) {
    const auto report = train(2, options);
    EXPECT_NEAR(report.at("test_perplexity").get<double>(),
                alone.at("test_perplexity").get<double>(), 2e-3);
  }
  EXPECT_LT(train(2, {"--precision", "bfloat16"}).at("test_perplexity").get<double>(), 1.3);
  // Replicas in a process are clones.
  EXPECT_NEAR(train(1, {"--scale-up", "2", "--accumulation-steps", "2"})
                  .at("test_perplexity")
                  .get<double>(),
              alone.at("test_perplexity").get<double>(), 2e-3);
}

TEST_F(GptRecipe, GoesOnFromAModelWithWhatIsNotInItsWeights) {
  export_small_writer(path("prose"), path("models"));
  const auto go_on = [&](const std::vector<std::string>& more) {
    std::vector<std::string> options = {"--data",      path("prose"),        "--epochs",
                                        "1",           "--max-steps",        "5",
                                        "--init-from", path("models/writer")};
    options.insert(options.end(), more.begin(), more.end());
    return run_program(words(1, options, "gpt"));
  };
  EXPECT_EQ(go_on({}).exit_code, 0);
  const auto loss = [&](const std::string& dropout) {
    EXPECT_EQ(go_on({"--dropout", dropout, "--report", report_}).exit_code, 0);
    return read_json(report_).at("train_loss").get<double>();
  };
  EXPECT_LT(loss("0.05"), loss("0.9"));
  const auto other = go_on({"--layers", "7"});
  EXPECT_NE(other.exit_code, 0);
  EXPECT_TRUE(contains(other.standard_error, "--layers 7: the model of --init-from "))
      << other.standard_error;
}

// What ranks have otherwise would train, in parts that do not fit each other.
TEST_F(GptRecipe, RanksWithOtherNetworksAreNamed) {
  write_small_prose(path("prose"));
  auto all = words(2, {"--data", path("prose"), "--epochs", "1", "--mesh", "pp=2"}, "gpt");
  const auto program = std::ranges::find(all.begin() + 1, all.end(), all.front());
  all.insert(program, {"sh", "-c", R"(exec "$0" "$@" --heads $((2 + 2 * SULLAE_RANK)))"});
  const auto result = run_program(all);
  EXPECT_NE(result.exit_code, 0);
  EXPECT_TRUE(contains(result.standard_error,
                       "ranks disagree: heads is 2 on rank 0, and 4 on rank 1: expected the same "
                       "options on every rank"))
      << result.standard_error;
}

TEST_F(GptRecipe, AnEvaluatorOfAnotherNetworkSaysSo) {
  write_small_prose(path("prose"));
  const auto train = [&](std::vector<std::string> more) {
    more.insert(more.end(), {"--data", path("prose"), "--epochs", "1", "--max-steps", "2",
                             "--checkpoint-dir", path("checkpoints")});
    return train_on(1, more);
  };
  EXPECT_EQ(train({}).exit_code, 0);
  const auto result = train({"--layers", "3", "--evaluator"});
  EXPECT_NE(result.exit_code, 0);
  EXPECT_TRUE(contains(result.standard_error, "--evaluator: ")) << result.standard_error;
  EXPECT_TRUE(contains(result.standard_error, "of a model with --layers 2, and this one has 3"))
      << result.standard_error;
}

TEST_F(GptRecipe, WritesWhatItHasLearnt) {
  export_small_writer(path("prose"), path("models"));
  const auto likely = [&](std::vector<std::string> words) {
    words.insert(words.end(), {"--temperature", "0", "--max-tokens", "4"});
    return generate(words).standard_output;
  };
  // From a repository, of its version, and of a checkpoint.
  EXPECT_EQ(likely({path("models/writer"), "--prompt", "two three"}),
            "two three four five six seven\n");
  EXPECT_EQ(likely({path("models/writer/1/model.ckpt"), "--prompt", "five"}),
            "five six seven\none\n");
  // Longer than what it sees.
  EXPECT_EQ(likely({path("models/writer"), "--prompt", small_prose(7)}),
            small_prose(7) + "one two three four\n");
  const auto several =
      generate({path("models/writer"), "--samples", "2", "--seed", "5", "--temperature", "2"});
  const auto cut = several.standard_output.find("----\n");
  ASSERT_NE(cut, std::string::npos) << several.standard_output;
  EXPECT_EQ(several.standard_output.substr(cut + 5),
            generate({path("models/writer"), "--seed", "6", "--temperature", "2"}).standard_output);
}

TEST_F(GptRecipe, MistakesAreTold) {
  const auto error = [&](std::vector<std::string> words) {
    const auto result = generate(std::move(words));
    EXPECT_NE(result.exit_code, 0);
    return result.standard_error;
  };
  EXPECT_TRUE(contains(error({path("none.ckpt")}), "none.ckpt"));
  EXPECT_TRUE(contains(error({directory_.path()}),
                       "expected a checkpoint, a model's folder in a repository, or"));
  export_small_writer(path("other"), path("models"));
  EXPECT_TRUE(contains(error({path("models")}), "a model's folder in a repository, as " +
                                                    path("models/writer").string() + ", or"));
  EXPECT_TRUE(contains(error({path("none.ckpt"), "--top-k", "-1"}),
                       "--top-k -1: expected 0 (all pieces) or more"));
  const auto checkpoints = path("digits").string();
  EXPECT_EQ(this->train(1, {"--epochs", "1", "--max-steps", "2", "--checkpoint-dir", checkpoints})
                .exit_code,
            0);
  EXPECT_TRUE(contains(error({checkpoints}), "is a mnist model, which writes nothing"));

  const auto refused = [&](const std::filesystem::path& data, std::vector<std::string> options) {
    options.insert(options.end(), {"--data", data});
    const auto result = train_on(1, std::move(options));
    EXPECT_EQ(result.exit_code, 1);
    return result.standard_error;
  };
  EXPECT_TRUE(
      contains(refused(write("short.txt", "word"), {}), "short.txt: holds no text to test"));
  EXPECT_TRUE(contains(refused(write("empty/train.txt", ""), {}), "holds no text to train on"));
  EXPECT_TRUE(contains(refused(path("empty"), {"--test-data", path("short.txt")}),
                       "holds no text to train on"));
  write("long.txt", small_prose(100));
  EXPECT_TRUE(contains(refused(path("long.txt"), {"--label-smoothing", "0.1"}),
                       "--label-smoothing 0.1: gpt has none"));
  EXPECT_TRUE(contains(refused(path("long.txt"), {"--heads", "3"}),
                       "--embedding-size 16 is not a multiple of --heads 3"));
  EXPECT_TRUE(contains(refused(path("long.txt"), {"--context", "1.5"}),
                       "--context 1.5: expected a whole number"));
  // Pieces of another text are not what the weights are of.
  const auto run = path("run").string();
  const std::vector<std::string> few = {"--epochs",         "1", "--pieces", "270",
                                        "--checkpoint-dir", run, "--resume"};
  EXPECT_EQ(train_on(1,
                     [&] {
                       auto words = few;
                       words.insert(words.end(), {"--data", path("long.txt")});
                       return words;
                     }())
                .exit_code,
            0);
  // Nor are weights of so many heads those of others, which they fit.
  auto heads = few;
  heads.insert(heads.end(), {"--heads", "1"});
  EXPECT_TRUE(contains(refused(path("long.txt"), heads),
                       "--resume: the checkpoint is of a model with --heads "));
  std::string others;
  for (int i = 0; i < 300; ++i) others += "kitten mitten written\n";
  EXPECT_TRUE(contains(refused(write("others.txt", others), few),
                       "--resume: the checkpoint is of other data"));
  EXPECT_TRUE(contains(refused(mnist_, {}), "is no text: expected the feature 'text'"));
}

TEST_F(GptRecipe, TheLastTenthIsHeldOutWhereNothingIsForTesting) {
  const auto read = [](const std::filesystem::path& data) {
    train::RecipeOptions options;
    options.data = data;
    return train::read_documents(options);
  };
  const auto text = small_prose(100);
  const auto one = read(write("one.txt", text));
  ASSERT_EQ(one.train.size(), 1U);
  ASSERT_EQ(one.test.size(), 1U);
  EXPECT_EQ(one.train[0] + one.test[0], text);
  EXPECT_NEAR(static_cast<double>(one.test[0].size()), 0.1 * static_cast<double>(text.size()), 10);
  EXPECT_TRUE(contains(one.description, "its last tenth held out for testing"));

  // Of a text without white space.
  const std::string character = "\xe6\xb1\x89";
  std::string characters;
  for (int i = 0; i < 105; ++i) characters += character;
  const auto apart = read(write("apart.txt", characters));
  EXPECT_EQ(apart.test.at(0).size() % character.size(), 0U);
  EXPECT_EQ(apart.train.at(0) + apart.test.at(0), characters);

  // Of many files, and of the rows of a table.
  for (int i = 0; i < 10; ++i)
    write("many/" + std::to_string(i) + ".txt", "text " + std::to_string(i));
  const auto many = read(path("many"));
  EXPECT_EQ(many.train.size(), 9U);
  EXPECT_EQ(many.test, (std::vector<std::string>{"text 9"}));
  std::string table = "text\tlabel\n";
  for (int i = 0; i < 20; ++i) table += "row" + std::to_string(10 + i) + "\t0\n";
  const auto rows = read(write("rows.tsv", table));
  EXPECT_EQ(rows.train.size(), 18U);
  EXPECT_EQ(rows.test, (std::vector<std::string>{"row28", "row29"}));

  write_small_prose(path("both"));
  const auto both = read(path("both"));
  EXPECT_EQ(both.train, (std::vector<std::string>{small_prose(400)}));
  EXPECT_EQ(both.test, (std::vector<std::string>{small_prose(40)}));
  EXPECT_EQ(both.description, path("both").string());
  // Who meant them to be trained on is told that they are not.
  write("both/more.txt", "more");
  EXPECT_EQ(read(path("both")).description,
            path("both").string() + " without 1 file called neither train… nor test…");

  // By words, in any case, and what is for testing is not trained on.
  write("words/LATEST.txt", "latest");
  write("words/Mine_Test.txt", "test");
  const auto by_words = read(path("words"));
  EXPECT_EQ(by_words.train, (std::vector<std::string>{"latest"}));
  EXPECT_EQ(by_words.test, (std::vector<std::string>{"test"}));
  write("parts/myTrain.txt", "train");
  write("parts/mytest.txt", "test");
  write("parts/interval.txt", "other");
  const auto parts = read(path("parts"));
  EXPECT_EQ(parts.train, (std::vector<std::string>{"train"}));
  EXPECT_EQ(parts.test, (std::vector<std::string>{"test"}));
  EXPECT_TRUE(contains(parts.description, " without 1 file called")) << parts.description;
}

}  // namespace
}  // namespace sullae::testing
