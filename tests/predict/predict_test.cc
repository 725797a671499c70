// `sullae predict` as a user runs it: what it writes, and what it refuses.
#include <nlohmann/json.hpp>

#include "predict/fixture.h"
#include "sullae/data/dataset.h"
#include "sullae/data/tfrecord.h"
#include "support/errors.h"
#include "support/store_server.h"
#include "support/variable.h"

namespace sullae::testing {
namespace {

using nlohmann::json;

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

TEST_F(Predict, TakesAModelOfAStore) {
  put_reviews(25);
  ASSERT_EQ(predict({"--data", reviews()}).exit_code, 0);
  const auto expected = contents(out_);
  const auto& server = StoreServer::empty();
  const Variable cache("XDG_CACHE_HOME", directory_.path().c_str());
  for (const auto& entry : fs::recursive_directory_iterator(model_)) {
    if (entry.is_regular_file())
      server.put_file("models/texts/" + fs::relative(entry.path(), model_).string(), entry.path());
  }
  fs::remove_all(out_);
  fs::remove_all(model_);
  model_ = server.s3("models/texts");
  const auto result = predict({"--data", reviews()}, 2);
  EXPECT_EQ(result.exit_code, 0) << result.standard_error;
  EXPECT_EQ(contents(out_), expected);
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
  EXPECT_EQ(std::get<data::Values<float>>(example.features.at("probabilities")).size(), 2U);
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
  EXPECT_EQ(std::get<data::Values<float>>(example.features.at("probabilities")).size(), 2U);
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
  model_ = directory_.path() / "run";
  put_text(model_ / "gpt-step-000000001.ckpt", "");
  put_text(model_ / "nsmc-step-000000007.ckpt", "");
  EXPECT_TRUE(contains(error_of_predict({"--data", reviews()}),
                       "run: has checkpoints of nsmc and of gpt: expected one of its files, as "));
}

}  // namespace
}  // namespace sullae::testing
