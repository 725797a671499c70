// `sullae predict` as a user runs it: what it writes, what it does again after an interruption, and what it refuses.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "predict/review_model.h"
#include "storage/storage.h"
#include "sullae/data/dataset.h"
#include "sullae/data/tfrecord.h"
#include "support/errors.h"
#include "support/program.h"
#include "support/store_server.h"
#include "support/temporary_directory.h"

namespace sullae::testing {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

class Predict : public ::testing::Test {
 protected:
  Predict() { put_model(1); }
  void put_model(int version) { put_review_model(model_, version); }

  static std::string read(const fs::path& file) {
    std::ifstream stream(file);
    return {std::istreambuf_iterator<char>(stream), {}};
  }
  // So many rows with an id, a text, and a label that is right for three of four.
  void put_reviews(int rows, const std::string& name = "reviews.csv") {
    std::string text = "id,text,label\n";
    for (int i = 0; i < rows; ++i) {
      std::string words = i % 2 == 0 ? "b" : "a";
      for (int word = 0; word < i % 7; ++word) words += i % 2 == 0 ? " b" : " a";
      const bool is_good = (i % 2 == 0) != (i % 4 == 3);
      text += fmt::format("r{},\"{}\",{}\n", i, words, is_good ? "good" : "bad");
    }
    put_text(directory_.path() / name, text);
  }
  std::vector<std::string> words(int ranks, const std::vector<std::string>& options) {
    std::vector<std::string> all{sullae_program()};
    if (ranks > 1)
      all.insert(all.end(), {"run", "--no-tag", "-np", std::to_string(ranks), sullae_program()});
    all.insert(all.end(), {"predict", model_.string(), "--output", out_.string()});
    all.insert(all.end(), options.begin(), options.end());
    return all;
  }
  ProgramResult predict(std::vector<std::string> options, int ranks = 1) {
    return run_program(words(ranks, std::move(options)));
  }
  std::string error_of_predict(std::vector<std::string> options) {
    const auto result = predict(std::move(options));
    EXPECT_EQ(result.exit_code, 1) << result.standard_output;
    return result.standard_error;
  }
  // All files of the output by name, but for what describes the run.
  std::map<std::string, std::string> contents(const fs::path& folder) {
    std::map<std::string, std::string> found;
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      if (entry.is_regular_file() && entry.path().filename() != "_predict.json")
        found[fs::relative(entry.path(), folder)] = read(entry.path());
    }
    return found;
  }
  std::string reviews() const { return directory_.path() / "reviews.csv"; }

  TemporaryDirectory directory_;
  fs::path model_ = directory_.path() / "models" / "texts";
  fs::path out_ = directory_.path() / "out";
};

TEST_F(Predict, WritesARowASampleInTheirOrder) {
  put_reviews(25);
  const auto result = predict({"--data", reviews(), "--columns", "id", "--rows-per-file", "10"});
  EXPECT_EQ(result.exit_code, 0) << result.standard_error;
  EXPECT_TRUE(contains(result.standard_output, "wrote 25 predictions to 3 files"));
  EXPECT_TRUE(fs::exists(out_ / "_SUCCESS"));
  int row = 0;
  for (const char* part : {"part-00000.jsonl", "part-00001.jsonl", "part-00002.jsonl"}) {
    std::ifstream stream(out_ / part);
    for (std::string line; std::getline(stream, line); ++row) {
      const auto one = json::parse(line);
      EXPECT_EQ(one["row"], row);
      EXPECT_EQ(one["id"], fmt::format("r{}", row));
      EXPECT_EQ(one["label"], row % 2 == 0 ? "good" : "bad");
      EXPECT_GT(one["probability"].get<double>(), 0.5);
      EXPECT_EQ(one["probabilities"].size(), 2U);
    }
  }
  EXPECT_EQ(row, 25);
  const auto set = data::open_dataset({out_});
  ASSERT_EQ(set->size(), 25U);
  EXPECT_EQ(*set->read(23).bytes("id"), "r23");
  EXPECT_EQ(*set->read(23).bytes(data::feature::kClass), "bad");
  EXPECT_EQ(*set->read(23).integer("row"), 23);
  EXPECT_TRUE(contains(
      predict({"--data", reviews(), "--columns", "id", "--rows-per-file", "10"}).standard_output,
      "nothing was left to do: 25 predictions in 3 files"));
}

TEST_F(Predict, WritesCsvAndTFRecordThatDataSetsAreReadFrom) {
  put_reviews(25);
  ASSERT_EQ(predict({"--data", reviews(), "--columns", "id,text", "--outputs", "label,probability",
                     "--format", "csv"})
                .exit_code,
            0);
  const auto csv = read(out_ / "part-00000.csv");
  EXPECT_TRUE(csv.starts_with("row,id,text,label,probability\n0,r0,b,good,0.")) << csv;
  fs::remove_all(out_);
  ASSERT_EQ(predict({"--data", reviews(), "--columns", "id", "--format", "tfrecord"}).exit_code, 0);
  const auto set = data::open_dataset({out_});
  ASSERT_EQ(set->size(), 25U);
  const auto example = set->read(3);
  EXPECT_EQ(*example.integer("row"), 3);
  EXPECT_EQ(*example.bytes("id"), "r3");
  EXPECT_EQ(*example.bytes("label"), "bad");
  EXPECT_EQ(std::get<std::vector<float>>(example.features.at("probabilities")).size(), 2U);
}

TEST_F(Predict, CsvHasAllOfSeveralTexts) {
  data::TFRecordWriter records(directory_.path() / "r.tfrecord");
  data::Example example;
  example.set(data::feature::kText, "b");
  example.features["tags"] = std::vector<std::string>{"", "one", ""};
  records.write(serialize(example));
  records.close();
  ASSERT_EQ(predict({"--data", directory_.path() / "r.tfrecord", "--columns", "tags", "--outputs",
                     "label", "--format", "csv"})
                .exit_code,
            0);
  EXPECT_EQ(read(out_ / "part-00000.csv"), "row,tags,label\n0, one ,good\n");
}

TEST_F(Predict, WritesParquetAndReadsIt) {
  put_reviews(25);
  ASSERT_EQ(predict({"--data", reviews(), "--columns", "id", "--format", "parquet",
                     "--rows-per-file", "10"},
                    2)
                .exit_code,
            0);
  const auto files = data::find_part_files({out_});
  ASSERT_EQ(files.size(), 3U);
  EXPECT_EQ(files.back().filename(), "part-00002.parquet");
  const auto set = data::open_dataset({out_}, {.kept_columns = {"label"}});
  ASSERT_EQ(set->size(), 25U);
  const auto example = set->read(23);
  EXPECT_EQ(*example.integer("row"), 23);
  EXPECT_EQ(*example.bytes("id"), "r23");
  EXPECT_EQ(*example.bytes("column/label"), "bad");
  EXPECT_EQ(std::get<std::vector<float>>(example.features.at("probabilities")).size(), 2U);
  // Of what is Parquet itself, with a number as key.
  const auto table = directory_.path() / "table";
  ASSERT_EQ(
      run_program({sullae_program(), "data", "convert", out_, "--output", table, "--to", "parquet"})
          .exit_code,
      0);
  fs::remove_all(out_);
  EXPECT_TRUE(contains(error_of_predict({"--data", table, "--columns", "key"}),
                       "has no column 'key', expected one of "));
  const auto result = predict(
      {"--data", table, "--columns", "number", "--text-columns", "id", "--format", "parquet"});
  EXPECT_TRUE(contains(result.standard_error, "has no column 'number'")) << result.standard_error;
  ASSERT_EQ(predict({"--data", table, "--columns", "id,probability", "--text-columns", "id",
                     "--outputs", "label", "--format", "parquet"})
                .exit_code,
            0);
  const auto again = data::open_dataset({out_}, {.kept_columns = {"label"}})->read(7);
  EXPECT_EQ(*again.bytes("id"), "r7");
  EXPECT_EQ(again.features.at("probability").index(), 1U);  // a float, as it was
}

TEST_F(Predict, ComparesWithLabels) {
  put_reviews(400);
  const auto result = predict({"--data", reviews(), "--labels", "--rows-per-file", "90"}, 2);
  EXPECT_EQ(result.exit_code, 0) << result.standard_error;
  EXPECT_TRUE(contains(result.standard_output, "accuracy 75.00 % of 400 samples"))
      << result.standard_output;
  const auto report = json::parse(read(out_ / "_report.json"));
  EXPECT_EQ(report["accuracy"], 0.75);
  EXPECT_EQ(report["confusion"], json::parse("[[100, 0], [100, 200]]"));
  EXPECT_EQ(report["classes"][0]["recall"], 1.0);
  EXPECT_EQ(report["classes"][0]["precision"], 0.5);
  EXPECT_TRUE(contains(read(out_ / "_report.html"), "accuracy 75.00 % of 400 samples"));
}

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
                       "holds predictions of another run (columns was [], and is [\"id\"])"));
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

// A column goes along as it is, and does not become what the model reads.
TEST_F(Predict, ColumnsChangeNothing) {
  put_text(directory_.path() / "reviews.csv", "title,text,stars\nb b,a a a,5\nb,a a,1\n");
  ASSERT_EQ(predict({"--data", reviews(), "--text-columns", "title", "--columns", "text,stars"})
                .exit_code,
            0);
  const auto line = read(out_ / "part-00000.jsonl");
  EXPECT_TRUE(line.starts_with("{\"row\":0,\"text\":\"a a a\",\"stars\":\"5\",\"label\":\"good\""))
      << line;
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

TEST_F(Predict, DamagedSamplesAreRefusedOrLeftOut) {
  put_text(directory_.path() / "reviews.csv", "id,text,label\nr0,b b,good\nr1,a\nr2,a,bad\n");
  const auto error = error_of_predict({"--data", reviews()});
  EXPECT_TRUE(contains(error, "reviews.csv, record 1")) << error;
  EXPECT_FALSE(fs::exists(out_ / "_SUCCESS"));
  const auto result = predict({"--data", reviews(), "--skip-damaged"});
  EXPECT_EQ(result.exit_code, 0) << result.standard_error;
  EXPECT_TRUE(contains(result.standard_output, "left out 1 damaged sample"))
      << result.standard_output;
  EXPECT_TRUE(contains(read(out_ / "part-00000.jsonl"), "{\"row\":2,\"label\":\"bad\""));
}

TEST_F(Predict, TextsNeedNoLabels) {
  put_text(directory_.path() / "reviews.csv", "id,text\nr0,b b\nr1,a\n");
  EXPECT_EQ(predict({"--data", reviews(), "--columns", "id"}).exit_code, 0);
  EXPECT_TRUE(contains(read(out_ / "part-00000.jsonl"), "\"id\":\"r1\",\"label\":\"bad\""));
  EXPECT_TRUE(
      contains(error_of_predict({"--data", reviews(), "--labels", "--overwrite"}), "label"));
}

TEST_F(Predict, TorchScriptTakesFeaturesByName) {
  const auto model = directory_.path() / "models" / "sums";
  put_text(model / "config.toml",
           "max_batch_size = 8\n[[inputs]]\nname = \"x\"\ndatatype = \"FP32\"\nshape = [-1, 3]\n"
           "[[outputs]]\nname = \"sum\"\ndatatype = \"FP32\"\nshape = [-1]\n");
  put_script(model, 1, "def forward(self, x):\n  return x.sum(1)\n");
  const auto file = directory_.path() / "numbers.tfrecord";
  data::TFRecordWriter writer(file);
  for (int i = 0; i < 20; ++i) {
    data::Example example;
    example.features["x"] = std::vector<float>{1, 2, static_cast<float>(i)};
    writer.write(serialize(example));
  }
  writer.close();
  model_ = model;
  const auto result = predict({"--data", file.string()});
  ASSERT_EQ(result.exit_code, 0) << result.standard_error;
  EXPECT_TRUE(contains(read(out_ / "part-00000.jsonl"), "{\"row\":19,\"sum\":22.0}\n"));
  EXPECT_TRUE(contains(error_of_predict({"--data", file.string(), "--labels", "--overwrite"}),
                       "--labels: the model has no classes"));
  EXPECT_TRUE(
      contains(error_of_predict({"--data", file.string(), "--outputs", "mean", "--overwrite"}),
               "--outputs: the model has no output 'mean': expected some of sum"));
}

TEST_F(Predict, MistakesAreTold) {
  put_reviews(5);
  EXPECT_TRUE(contains(error_of_predict({"--data", directory_.path() / "none.csv"}), "none.csv"));
  EXPECT_TRUE(contains(error_of_predict({"--data", reviews(), "--columns", "key"}),
                       "has no column 'key', expected one of id, text, label"));
  EXPECT_TRUE(contains(error_of_predict({"--data", reviews(), "--columns", "label"}),
                       "--columns: 'label' is what a prediction has by that name"));
  EXPECT_TRUE(contains(error_of_predict({"--data", reviews(), "--columns", "id,id"}),
                       "--columns: 'id' is given twice"));
  put_text(out_ / "x", "y");
  EXPECT_TRUE(
      contains(error_of_predict({"--data", reviews()}), "holds 'x', which is no prediction"));
  model_ = directory_.path() / "models" / "no";
  EXPECT_TRUE(
      contains(error_of_predict({"--data", reviews()}), "models/no: there is no such model"));
  model_ = directory_.path() / "models";
  EXPECT_TRUE(contains(error_of_predict({"--data", reviews()}), "expected a checkpoint"));
}

}  // namespace
}  // namespace sullae::testing
