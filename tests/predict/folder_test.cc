// What `sullae predict` finds in the folder that it writes to: its own work that was interrupted or
// damaged, another run's, others' files.
#include <csignal>
#include <random>
#include <thread>

#include "predict/description.h"
#include "predict/fixture.h"
#include "storage/storage.h"
#include "support/errors.h"
#include "support/store_server.h"

namespace sullae::testing {
namespace {

TEST_F(Predict, AnyRanksWorkersAndInterruptionsGiveTheSame) {
  put_reviews(3000);
  const std::vector<std::string> options = {"--data",   reviews(),         "--columns", "id",
                                            "--labels", "--rows-per-file", "100"};
  auto one_worker = options;
  one_worker.insert(one_worker.end(), {"--workers", "1"});
  ASSERT_EQ(predict(one_worker).exit_code, 0);
  const auto expected = contents(out_);
  EXPECT_EQ(expected.size(), 30U + 30U + 3U);
  fs::remove_all(out_);
  ASSERT_EQ(predict(options, 3).exit_code, 0);
  EXPECT_EQ(contents(out_), expected);
  // Killed again and again.
  fs::remove_all(out_);
  std::mt19937 random(1);
  int kills = 0;
  for (int i = 0; i < 20; ++i) {
    Program program(words(i % 2 + 1, options));
    std::this_thread::sleep_for(std::chrono::milliseconds{200 + random() % 700});
    program.signal(SIGKILL);
    if (program.wait().exit_code != 0) ++kills;
    EXPECT_TRUE(vanish(out_.string()));
  }
  EXPECT_GT(kills, 0);
  ASSERT_EQ(predict(options).exit_code, 0);
  EXPECT_EQ(contents(out_), expected);
}

// Predictions of data that change meanwhile would be of neither.
TEST_F(Predict, SeesWhichDataHaveChanged) {
  put_reviews(3);
  put_reviews(5, "more.csv");
  const auto more = directory_.path() / "more.csv";
  const std::vector<fs::path> data = {reviews(), more};
  const nlohmann::json run = {{"data", predict::describe_data(data)}};
  EXPECT_EQ(predict::changed_file(data, run), "");
  fs::last_write_time(more, fs::last_write_time(more) + std::chrono::seconds{1});
  EXPECT_EQ(predict::changed_file(data, run), more.string());
  fs::remove(more);
  EXPECT_EQ(predict::changed_file(data, run), "") << "it was read";
}

TEST_F(Predict, AnotherMeaningOfLabelsIsAnotherRun) {
  put_text(directory_.path() / "set" / "part.jsonl",
           "{\"text\":\"a\",\"label\":0}\n{\"text\":\"b\",\"label\":1}\n");
  const auto classes = directory_.path() / "set" / "classes.txt";
  put_text(classes, "bad\ngood\n");
  const std::vector<std::string> options = {"--data", directory_.path() / "set", "--labels"};
  ASSERT_EQ(predict(options).exit_code, 0);
  put_text(classes, "good\nbad\n");
  EXPECT_TRUE(contains(error_of_predict(options),
                       "holds predictions of another run (classes was [\"bad\",\"good\"], and is "
                       "[\"good\",\"bad\"])"));
}

// Of a Windows of some years ago, say.
TEST_F(Predict, FilesMayHaveNamesThatAreNoText) {
  put_reviews(30, "\xc7\xd1.csv");
  const std::vector<std::string> options = {"--data", directory_.path() / "\xc7\xd1.csv"};
  const auto first = predict(options);
  ASSERT_EQ(first.exit_code, 0) << first.standard_error;
  EXPECT_EQ(predict(options).exit_code, 0);
}

// Where there are no locks and no renames.
TEST_F(Predict, AStoreTakesTheSameAlsoAfterInterruptions) {
  const auto& server = StoreServer::empty();
  put_reviews(1000);
  const std::vector<std::string> options = {"--data",   reviews(),         "--columns", "id",
                                            "--labels", "--rows-per-file", "50"};
  ASSERT_EQ(predict(options).exit_code, 0);
  const auto expected = contents(out_);
  server.put_file("data/reviews.csv", reviews());
  const auto stored = [&](const fs::path& folder) {
    std::map<std::string, std::string> found;
    for (const char* inside : {"", "_parts"}) {
      for (const auto& entry : storage::list(folder / inside)) {
        if (!entry.status.is_folder && entry.name != "_predict.json")
          found[fs::path(inside) / entry.name] =
              storage::read_file(folder / inside / entry.name, 1 << 20);
      }
    }
    return found;
  };
  std::mt19937 random(1);
  for (const fs::path out : {server.s3("out"), server.webhdfs("out-2")}) {
    auto words = this->words(1, options);
    words[4] = out;  // behind --output
    words[6] = server.s3("data/reviews.csv");
    for (int i = 0; i < 5; ++i) {
      Program program(words, server.environment());
      std::this_thread::sleep_for(std::chrono::milliseconds{300 + random() % 500});
      program.signal(SIGKILL);
      program.wait();
    }
    // What a kill between WebHDFS's writing and renaming leaves.
    const std::string key = out.filename();
    for (const char* left :
         {"/.part-00002.jsonl.tmp-00c0ffee-7-0", "/_parts/.part-00002.json.tmp-1"})
      server.put(key + left, "row");
    const auto result = run_program(words, server.environment());
    ASSERT_EQ(result.exit_code, 0) << result.standard_error;
    EXPECT_EQ(stored(out), expected);
    EXPECT_TRUE(contains(run_program(words, server.environment()).standard_output,
                         "nothing was left to do"));
    words.insert(words.end(), {"--columns", "text"});
    EXPECT_TRUE(contains(run_program(words, server.environment()).standard_error,
                         "holds predictions of another run"));
    words.push_back("--overwrite");
    EXPECT_EQ(run_program(words, server.environment()).exit_code, 0);
    EXPECT_EQ(stored(out).size(), expected.size());
  }
}

TEST_F(Predict, DoesNotMixRuns) {
  put_reviews(25);
  ASSERT_EQ(predict({"--data", reviews()}).exit_code, 0);
  EXPECT_TRUE(contains(error_of_predict({"--data", reviews(), "--columns", "id"}),
                       "holds predictions of another run (--columns was [], and is [\"id\"])"));
  put_reviews(26);
  EXPECT_TRUE(
      contains(error_of_predict({"--data", reviews()}), "holds predictions of another run"));
  put_model(2);
  EXPECT_EQ(predict({"--data", reviews(), "--overwrite"}).exit_code, 0);
  EXPECT_TRUE(contains(read(out_ / "part-00000.jsonl"), "{\"row\":25,"));
  // What is no prediction is never removed.
  put_text(out_ / "notes", "mine");
  fs::remove(out_ / "_predict.json");
  EXPECT_TRUE(
      contains(error_of_predict({"--data", reviews(), "--overwrite"}), "which is no prediction"));
  EXPECT_TRUE(fs::exists(out_ / "notes"));
}

TEST_F(Predict, OneProcessWritesAtATime) {
  put_reviews(20'000);
  Program program(words(1, {"--data", reviews(), "--rows-per-file", "100"}));
  for (int tries = 0; tries < 12'000 && !fs::exists(out_ / "_predict.json"); ++tries)
    std::this_thread::sleep_for(std::chrono::milliseconds{5});
  program.signal(SIGSTOP);
  EXPECT_TRUE(contains(error_of_predict({"--data", reviews(), "--rows-per-file", "100"}),
                       "another `sullae predict` is writing there"));
  program.signal(SIGCONT);
  EXPECT_EQ(program.wait().exit_code, 0);
}

TEST_F(Predict, AnIndexThatIsMissingIsMadeWithItsPart) {
  put_reviews(30);
  const std::vector<std::string> options = {"--data", reviews(),  "--rows-per-file",
                                            "10",     "--format", "tfrecord"};
  ASSERT_EQ(predict(options).exit_code, 0);
  const auto expected = contents(out_);
  ASSERT_TRUE(fs::remove(out_ / "part-00001.tfrecord.idx"));
  ASSERT_EQ(predict(options).exit_code, 0);
  EXPECT_EQ(contents(out_), expected);
}

TEST_F(Predict, AFolderIsRepaired) {
  put_reviews(50);
  const std::vector<std::string> options = {"--data", reviews(),  "--rows-per-file",
                                            "10",     "--format", "csv"};
  ASSERT_EQ(predict(options).exit_code, 0);
  const auto expected = contents(out_);
  fs::remove(out_ / "part-00003.csv");
  fs::remove(out_ / "_parts" / "part-00001.json");
  put_text(out_ / "_parts" / "part-00002.json", "{");
  put_text(out_ / "_parts" / "part-00004.json.tmp-1", "{");
  put_text(out_ / "part-00004.csv.tmp-1", "row");
  ASSERT_EQ(predict(options).exit_code, 0);
  EXPECT_EQ(contents(out_), expected);
  fs::remove_all(out_ / "_parts");
  ASSERT_EQ(predict(options).exit_code, 0);
  EXPECT_EQ(contents(out_), expected);
  // One that was cut off before it was described, and one whose removal was.
  fs::remove(out_ / "_predict.json");
  EXPECT_TRUE(contains(error_of_predict(options), "_predict.json is missing or damaged"));
  for (const auto& [name, text] : expected) {
    if (name.starts_with("part-")) fs::remove(out_ / name);
  }
  ASSERT_EQ(predict(options).exit_code, 0);
  EXPECT_EQ(contents(out_), expected);
  // What is none of its own.
  put_text(out_ / "part-00005.csv", "");
  EXPECT_TRUE(contains(error_of_predict(options),
                       "holds 'part-00005.csv', which is none of this run's 5 parts"));
  put_text(out_ / "part-mine.csv", "");
  EXPECT_TRUE(contains(error_of_predict({"--data", reviews(), "--overwrite"}),
                       "holds 'part-mine.csv', which is no prediction"));
}

}  // namespace
}  // namespace sullae::testing
