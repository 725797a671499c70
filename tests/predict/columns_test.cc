// What stands beside predictions, and what predictions are, in each format: the values that there
// were, whatever the others are.
#include <algorithm>
#include <cmath>
#include <limits>

#include "predict/fixture.h"
#include "sullae/data/dataset.h"
#include "sullae/data/parquet.h"
#include "sullae/data/tfrecord.h"
#include "support/errors.h"

namespace sullae::testing {
namespace {

using data::FeatureType;

class PredictedColumns : public Predict {
 protected:
  std::string put_lines(const std::string& text) {
    const auto file = directory_.path() / "lines.jsonl";
    put_text(file, text);
    return file;
  }
  std::string part(const std::string& ending, int number = 0) {
    return out_ / fmt::format("part-{:05}.{}", number, ending);
  }
  void expect_predicted(const std::string& data, const std::string& columns,
                        const std::string& format) {
    fs::remove_all(out_);
    const auto result = predict({"--data", data, "--columns", columns, "--format", format});
    ASSERT_EQ(result.exit_code, 0) << result.standard_error;
  }
  data::Example first_of(const std::string& columns) {
    return data::open_dataset({part("parquet")}, {.kept_columns = {columns}})->read(0);
  }
};

// As pandas calls those without a name.
TEST_F(PredictedColumns, MayBeCalledByNumbers) {
  const auto file = directory_.path() / "numbers.csv";
  put_text(file, "2020,2,1,text\np,q,r,a\n");
  expect_predicted(file, "1,2020,3", "csv");
  EXPECT_TRUE(contains(read(part("csv")), "row,1,2020,3,"));
  EXPECT_TRUE(contains(read(part("csv")), "0,r,p,r,")) << "the third has no such name";
}

// U+FFFD in their place would make different keys equal.
TEST_F(PredictedColumns, ThatAreNoTextAreRefusedWhereTextIsWritten) {
  const auto file = directory_.path() / "r.tfrecord";
  data::TFRecordWriter records(file);
  data::Example example;
  for (const char* const key : {"\xff\x01", "k"}) {
    example.set(data::feature::kText, "b");
    example.features["key"] = std::vector<std::string>{key};
    records.write(serialize(example));
  }
  records.close();
  for (const std::string format : {"jsonl", "csv"}) {
    fs::remove_all(out_);
    EXPECT_TRUE(contains(error_of_predict({"--data", file, "--columns", "key", "--format", format}),
                         "record 0, offset 0: its column 'key' is no UTF-8, which --format " +
                             format + " does not hold: expected --format parquet or tfrecord"));
  }
  ASSERT_EQ(predict({"--data", file, "--columns", "key", "--skip-damaged"}).exit_code, 0);
  EXPECT_TRUE(contains(read(part("jsonl")), "{\"row\":1,\"key\":\"k\","));
  expect_predicted(file, "key", "tfrecord");
  EXPECT_EQ(*data::open_dataset({part("tfrecord")})->read(0).bytes("key"), "\xff\x01");
}

TEST_F(PredictedColumns, HaveDoublesAsTheyAre) {
  const auto lines = put_lines(
      "{\"text\":\"a\",\"time\":1764150000.123,\"price\":99999999.5}\n"
      "{\"text\":\"b\",\"time\":1764150001,\"price\":1234567.89}\n");
  expect_predicted(lines, "time,price", "jsonl");
  EXPECT_TRUE(contains(read(part("jsonl")), "\"time\":1764150000.123,\"price\":99999999.5,"));
  EXPECT_TRUE(contains(read(part("jsonl")), "\"time\":1764150001.0,\"price\":1234567.89,"));
  expect_predicted(lines, "time,price", "csv");
  EXPECT_TRUE(contains(read(part("csv")), "0,1764150000.123,99999999.5,"));
  expect_predicted(lines, "time", "parquet");
  const std::vector<double> time{1764150000.123};
  EXPECT_EQ(first_of("time").features.at("column/time"), data::Feature(time));
  // As they come from Parquet, too.
  const auto table = directory_.path() / "table.parquet";
  fs::rename(part("parquet"), table);
  fs::remove_all(out_);
  ASSERT_EQ(predict({"--data", table, "--columns", "time", "--text-columns", "label"}).exit_code,
            0);
  EXPECT_TRUE(contains(read(part("jsonl")), "{\"row\":0,\"time\":1764150000.123,"));
  fs::remove_all(out_);
  EXPECT_TRUE(
      contains(error_of_predict({"--data", lines, "--columns", "time", "--format", "tfrecord"}),
               "1764150001 is in a column of doubles, which tf.train.Example has as float32"));
}

TEST_F(PredictedColumns, MayBeMissingAtFirst) {
  const auto lines = put_lines("{\"text\":\"a\",\"opt\":null}\n{\"text\":\"b\",\"opt\":\"x\"}\n");
  expect_predicted(lines, "opt", "jsonl");
  EXPECT_TRUE(contains(read(part("jsonl")), "{\"row\":0,\"opt\":null,"));
  EXPECT_TRUE(contains(read(part("jsonl")), "{\"row\":1,\"opt\":\"x\","));
  const auto bare = put_lines("{\"text\":\"a\"}\n{\"text\":\"b\"}\n");
  EXPECT_TRUE(contains(error_of_predict({"--data", bare, "--columns", "opt", "--overwrite"}),
                       "has no column 'opt'"));
}

TEST_F(PredictedColumns, OfListsAreListsWhateverTheirLength) {
  const auto lines =
      put_lines("{\"text\":\"a\",\"tags\":[\"x\",\"y\"]}\n{\"text\":\"b\",\"tags\":[\"z\"]}\n");
  expect_predicted(lines, "tags", "jsonl");
  EXPECT_TRUE(contains(read(part("jsonl")), "{\"row\":1,\"tags\":[\"z\"],"));
}

// What a file says that its columns are is not guessed from some of its rows.
TEST_F(PredictedColumns, AreOfTheTypeThatTheirFileSays) {
  const auto table = directory_.path() / "rare.parquet";
  data::ParquetWriter writer(table, {{.name = "text"},
                                     {.name = "raw", .kind = FeatureType::Kind::bytes},
                                     {.name = "tags", .dimensions = 1}});
  constexpr int kRows = 1500;
  constexpr int kRare = 880;  // none that is looked at
  for (int i = 0; i < kRows; ++i) {
    const data::Feature text = std::vector<std::string>{"a b"};
    const data::Feature raw = std::vector<std::string>{i == kRare ? "\xff" : "r"};
    const data::Feature tags = std::vector<std::string>(i == kRare ? 2 : 1, "t");
    writer.write({{.values = &text}, {.values = &raw}, {.values = &tags}});
  }
  writer.close();
  expect_predicted(table, "raw,tags", "parquet");
  const auto set =
      data::open_dataset({part("parquet")}, {.unlabelled = true, .kept_columns = {"raw", "tags"}});
  EXPECT_EQ(*set->read(kRare).bytes("column/raw"), "\xff");
  EXPECT_EQ(std::get<0>(set->read(kRare).features.at("column/tags")).size(), 2U);
}

TEST_F(PredictedColumns, AreAsWideAsInTheWidestFile) {
  const auto folder = directory_.path() / "prices";
  fs::create_directory(folder);
  const data::Feature text = std::vector<std::string>{"a b"};
  const auto put = [&](const char* name, FeatureType::Kind kind, const data::Feature& price) {
    data::ParquetWriter writer(folder / name, {{.name = "text"}, {.name = "price", .kind = kind}});
    writer.write({{.values = &text}, {.values = &price}});
    writer.close();
  };
  put("a.parquet", FeatureType::Kind::real, std::vector<float>{0.5F});
  put("b.parquet", FeatureType::Kind::real64, std::vector<double>{1234567.89});
  expect_predicted(folder, "price", "parquet");
  const auto set = data::open_dataset({part("parquet")}, {.kept_columns = {"price"}});
  EXPECT_EQ(set->read(0).features.at("column/price"), data::Feature(std::vector<double>{0.5}));
  EXPECT_EQ(set->read(1).features.at("column/price"),
            data::Feature(std::vector<double>{1234567.89}));
}

TEST_F(PredictedColumns, AreAlikeInFilesWithoutARow) {
  std::string text = "id,text\n";
  for (int i = 0; i < 5; ++i) text += "r,\xff\n";
  for (int i = 0; i < 3; ++i) text += "r,a\n";
  put_text(directory_.path() / "reviews.csv", text);
  const auto result = predict({"--data", reviews(), "--skip-damaged", "--rows-per-file", "5",
                               "--format", "parquet", "--columns", "id"});
  ASSERT_EQ(result.exit_code, 0) << result.standard_error;
  const auto empty = data::open_dataset(
      {part("parquet")}, {.unlabelled = true, .kept_columns = {"id", "label", "probabilities"}});
  EXPECT_EQ(empty->size(), 0U);
  const auto types = empty->feature_types();
  EXPECT_EQ(*std::ranges::find(types, "column/probabilities", &FeatureType::name),
            (FeatureType{
                .name = "column/probabilities", .kind = FeatureType::Kind::real, .dimensions = 1}));
}

class PredictedOutputs : public PredictedColumns {
 protected:
  // Of each row's number x: x / 3 in float64, infinity beside it, and x - 1 as a whole number.
  void put_model_of_numbers() {
    model_ = directory_.path() / "models" / "numbers";
    put_text(model_ / "config.toml", R"(
max_batch_size = 8
[[inputs]]
name = "x"
datatype = "FP32"
shape = [-1]
[[outputs]]
name = "third"
datatype = "FP64"
shape = [-1, 2]
[[outputs]]
name = "less"
datatype = "INT64"
shape = [-1]
)");
    put_script(model_, 1,
               "def forward(self, x):\n"
               "  third = x.double() / 3\n"
               "  return torch.stack([third, third / 0], 1), x.long() - 1\n");
    lines_ = put_lines("{\"x\":1}\n{\"x\":-2}\n");
  }
  std::string lines_;
};

TEST_F(PredictedOutputs, AreOfTheirTypeWhateverTheirValues) {
  put_model_of_numbers();
  fs::remove_all(out_);
  ASSERT_EQ(predict({"--data", lines_, "--format", "parquet"}).exit_code, 0);
  const auto set = data::open_dataset({part("parquet")});
  EXPECT_EQ(set->feature_types(),
            (std::vector<FeatureType>{
                {.name = "less", .kind = FeatureType::Kind::integer},
                {.name = "row", .kind = FeatureType::Kind::integer},
                {.name = "third", .kind = FeatureType::Kind::real, .dimensions = 1}}));
  const auto kept = data::open_dataset({part("parquet")}, {.kept_columns = {"third"}})->read(1);
  EXPECT_EQ(kept.features.at("column/third"),
            data::Feature(std::vector<double>{-2.0 / 3, -std::numeric_limits<double>::infinity()}));
  fs::remove_all(out_);
  ASSERT_EQ(predict({"--data", lines_, "--format", "csv"}).exit_code, 0);
  EXPECT_EQ(read(part("csv")),
            "row,third,less\n0,0.3333333333333333 inf,0\n1,-0.6666666666666666 -inf,-3\n");
}

// Modules in modules in modules, as exported networks have them.
TEST_F(PredictedOutputs, OfNestedModulesAreComputed) {
  put_model_of_numbers();
  torch::jit::Module leaf("leaf");
  torch::jit::Module middle("middle");
  torch::jit::Module top("top");
  leaf.define("def forward(self, x):\n  return x.double() / 3\n");
  middle.register_module("leaf", leaf);
  middle.define(
      "def forward(self, x):\n  third = self.leaf.forward(x)\n  return torch.stack([third, third], "
      "1)\n");
  top.register_module("middle", middle);
  top.define("def forward(self, x):\n  return self.middle.forward(x), x.long() + 7\n");
  top.save((model_ / "1" / "model.pt").string());
  const auto result = predict({"--data", lines_});
  ASSERT_EQ(result.exit_code, 0) << result.standard_error;
  EXPECT_TRUE(contains(read(part("jsonl")), "\"less\":8}"));
}

TEST_F(PredictedOutputs, OfATransformerAreComputed) {
  put_reviews(40);
  const auto models = directory_.path() / "trained";
  const auto trained = run_program({sullae_program(), "train", "transformer", "--data", reviews(),
                                    "--test-data", reviews(), "--epochs", "1", "--layers", "1",
                                    "--embedding-size", "8", "--heads", "2", "--export", models});
  ASSERT_EQ(trained.exit_code, 0) << trained.standard_error;
  model_ = models / "transformer";
  const auto result = predict({"--data", reviews(), "--labels"});
  EXPECT_EQ(result.exit_code, 0) << result.standard_error;
}

}  // namespace
}  // namespace sullae::testing
