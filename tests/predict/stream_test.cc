// `sullae predict --source --sink` as a user runs it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <csignal>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <thread>

#include "predict/review_model.h"
#include "sullae/data/example.h"
#include "support/content_of.h"
#include "support/errors.h"
#include "support/kafka_cluster.h"
#include "support/program.h"
#include "support/temporary_directory.h"

namespace sullae::testing {
namespace {

using nlohmann::json;

constexpr int kPartitions = 3;

class PredictStream : public ::testing::Test {
 protected:
  PredictStream() {
    put_review_model(model_);
    cluster_.make_topic("reviews", kPartitions);
    cluster_.make_topic("opinions", kPartitions);
  }

  static std::string words_of(int i) { return i % 2 == 0 ? "b b a" : "a"; }
  void put(int first, int count) {
    for (int i = first; i < first + count; ++i) {
      json review = {{"id", i}, {"text", words_of(i)}};
      if (i % 5 == 0) review["place"] = "Seoul";
      cluster_.put("reviews", i % kPartitions, fmt::format("user{}", i % 7), review.dump());
    }
    cluster_.flush();
  }
  std::vector<std::string> words(std::vector<std::string> options, int ranks = 1) const {
    std::vector<std::string> all{sullae_program()};
    if (ranks > 1)
      all.insert(all.end(), {"run", "--no-tag", "-np", std::to_string(ranks), sullae_program()});
    all.insert(all.end(), {"predict", model_.string(), "--source", cluster_.address("reviews"),
                           "--sink", cluster_.address("opinions")});
    all.insert(all.end(), options.begin(), options.end());
    return all;
  }
  std::map<std::string, std::string> environment() const {
    return {{"SULLAE_KAFKA_CONFIG", cluster_.config()}, {"SULLAE_KAFKA_TIMEOUT", "60"}};
  }
  ProgramResult predict(std::vector<std::string> options, int ranks = 1) const {
    options.emplace_back("--once");
    return run_program(words(std::move(options), ranks), environment());
  }
  std::string error_of_predict(const std::vector<std::string>& options) const {
    const auto result = predict(options);
    EXPECT_EQ(result.exit_code, 1) << result.standard_output;
    return result.standard_error;
  }
  std::vector<KafkaCluster::Message> opinions() const {
    return cluster_.read("opinions", kPartitions);
  }
  // Each of the reviews [0, count) was predicted, rightly, and as the same each time.
  void expect_all(int count) const {
    std::map<std::string, std::string> found;
    std::set<int> ids;
    for (const auto& message : opinions()) {
      const auto [known, is_new] = found.emplace(message.key, *message.value);
      EXPECT_EQ(known->second, *message.value) << message.key;
      const auto one = json::parse(*message.value);
      EXPECT_EQ(message.key, fmt::format("{}/{}/{}", one["topic"].get<std::string>(),
                                         one["partition"].get<int>(), one["offset"].get<int>()));
      const int id = one["id"];
      ids.insert(id);
      EXPECT_EQ(one["label"], id % 2 == 0 ? "good" : "bad");
    }
    EXPECT_EQ(found.size(), static_cast<std::size_t>(count));
    EXPECT_EQ(ids.size(), static_cast<std::size_t>(count));
  }

  KafkaCluster cluster_;
  TemporaryDirectory directory_;
  std::filesystem::path model_ = directory_.path() / "models" / "texts";
};

TEST_F(PredictStream, PredictsWhatIsThereAndThenWhatHasComeSince) {
  put(0, 50);
  cluster_.put("reviews", 1, "user1", std::nullopt);
  cluster_.flush();
  const std::vector<std::string> options{"--columns", "id,place,message.key,message.time",
                                         "--outputs", "label,probability"};
  const auto result = predict(options);
  EXPECT_EQ(result.exit_code, 0) << result.standard_error;
  EXPECT_EQ(result.standard_output, "predicted 50 messages\n");
  expect_all(50);
  for (const auto& message : opinions()) {
    const auto one = json::parse(*message.value);
    const int id = one["id"];
    EXPECT_EQ(one["place"], id % 5 == 0 ? json("Seoul") : json());
    EXPECT_EQ(one["message.key"], fmt::format("user{}", id % 7));
    EXPECT_GT(one["message.time"].get<std::int64_t>(), 0);
    EXPECT_EQ(one.size(), 9U) << one;
  }
  put(50, 7);
  EXPECT_EQ(predict(options).standard_output, "predicted 7 messages\n");
  expect_all(57);
  EXPECT_EQ(predict(options).standard_output, "predicted 0 messages\n");
}

TEST_F(PredictStream, GoesOnUntilItIsToldToEnd) {
  const auto metrics = directory_.path() / "predict.prom";
  Program program(words({"--columns", "id", "--metrics-file", metrics.string()}), environment());
  for (int i = 0; i < 5; ++i) {
    put(10 * i, 10);
    std::this_thread::sleep_for(std::chrono::milliseconds{700});
  }
  for (int i = 0; i < 600 && (opinions().size() < 50 || !std::filesystem::exists(metrics)); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds{100});
  program.signal(SIGTERM);
  const auto result = program.wait();
  EXPECT_EQ(result.exit_code, 0) << result.standard_error;
  EXPECT_EQ(result.standard_output, "predicted 50 messages\n");
  expect_all(50);
  const std::string text = content_of(metrics);
  EXPECT_TRUE(contains(text, "sullae_source_lag_messages{source=\"" + cluster_.address("reviews") +
                                 "\",rank=\"0\"} 0\n"))
      << text;
  EXPECT_TRUE(contains(text, "sullae_source_idle_seconds{")) << text;
}

// Too short to have shown anything meanwhile.
TEST_F(PredictStream, LeavesItsLastFigures) {
  const auto metrics = directory_.path() / "predict.prom";
  put(0, 20);
  ASSERT_EQ(predict({"--columns", "id", "--metrics-file", metrics.string()}).exit_code, 0);
  const std::string text = content_of(metrics);
  EXPECT_TRUE(contains(text, "sullae_predict_messages_total{source=\"" +
                                 cluster_.address("reviews") + "\",rank=\"0\"} 20\n"))
      << text;
}

TEST_F(PredictStream, RanksShareThePartitions) {
  put(0, 300);
  const auto result = predict({"--columns", "id"}, 2);
  EXPECT_EQ(result.exit_code, 0) << result.standard_error;
  expect_all(300);
}

TEST_F(PredictStream, ReadsAndWritesTheOtherFormats) {
  cluster_.make_topic("rows", 1);
  cluster_.put("rows", 0, "", "7,\"b, b\"\n");
  cluster_.put("rows", 0, "", "8,a");
  cluster_.make_topic("examples", 1);
  data::Example example;
  example.set("text", "b");
  example.set("id", std::int64_t{9});
  cluster_.put("examples", 0, "", serialize(example));
  cluster_.flush();
  const auto run = [&](const std::string& from, const std::string& to,
                       const std::vector<std::string>& options) {
    std::vector<std::string> all{sullae_program(), "predict",           model_.string(),
                                 "--once",         "--source",          cluster_.address(from),
                                 "--sink",         cluster_.address(to)};
    all.insert(all.end(), options.begin(), options.end());
    const auto result = run_program(all, environment());
    EXPECT_EQ(result.exit_code, 0) << result.standard_error;
    return cluster_.read(to, 1);
  };
  cluster_.make_topic("csv", 1);
  const auto rows = run("rows", "csv",
                        {"--format", "csv", "--data-format", "csv", "--text-columns", "2",
                         "--columns", "1", "--outputs", "label"});
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].value, "rows,0,0,7,good");
  EXPECT_EQ(rows[1].value, "rows,0,1,8,bad");
  cluster_.make_topic("records", 1);
  const auto records = run("examples", "records", {"--format", "tfrecord", "--columns", "id"});
  ASSERT_EQ(records.size(), 1U);
  const auto record = data::parse_example(*records[0].value);
  EXPECT_EQ(*record.integer("id"), 9);
  EXPECT_EQ(*record.integer("offset"), 0);
  EXPECT_EQ(*record.bytes("label"), "good");
}

TEST_F(PredictStream, DamagedMessagesAreNamedOrLeftOut) {
  for (const char* value : {"{\"text\":", "{\"name\":\"b\"}", "{\"text\":7,\"id\":1}", "", "[1]"})
    cluster_.put("reviews", 0, "", value);
  cluster_.flush();
  put(0, 9);
  const auto error = error_of_predict({"--columns", "id"});
  EXPECT_TRUE(contains(error, cluster_.address("reviews") + ", partition 0, offset 0")) << error;
  const auto result = predict({"--columns", "id", "--skip-damaged"});
  EXPECT_EQ(result.exit_code, 0) << result.standard_error;
  EXPECT_TRUE(contains(result.standard_output, "; left out 5 damaged ones\n"))
      << result.standard_output;
  for (const char* offset : {"offset 0", "offset 1", "offset 2", "offset 3", "offset 4"})
    EXPECT_TRUE(contains(result.standard_error, offset)) << result.standard_error;
  expect_all(9);
}

// Whatever comes with it.
TEST_F(PredictStream, AMessageIsWhatItIsAlone) {
  cluster_.make_topic("mixed", 1);
  const auto put_one = [&](const json& value) {
    cluster_.put("mixed", 0, "", value.dump());
  };
  put_one({{"text", "b"}, {"id", 16777217}});
  put_one({{"title", "a a"}, {"text", "b"}, {"id", 0.5}});
  put_one({{"text", {"b", "b"}}, {"title", "a"}, {"id", "A17"}});
  put_one({{"text", "a"}, {"label", json::array()}, {"id", json()}});
  for (int i = 0; i < 1500; ++i) put_one({{"text", "b"}, {"id", i}});
  put_one({{"text", "a"}, {"id", "late"}, {"label", 7}});
  cluster_.flush();
  cluster_.make_topic("answers", 1);
  const auto result = run_program(
      {sullae_program(), "predict", model_.string(), "--once", "--skip-damaged", "--source",
       cluster_.address("mixed"), "--sink", cluster_.address("answers"), "--columns", "id"},
      environment());
  EXPECT_EQ(result.exit_code, 0) << result.standard_error;
  std::map<int, json> answers;
  for (const auto& message : cluster_.read("answers", 1)) {
    auto one = json::parse(*message.value);
    answers[one["offset"]] = one;
  }
  const auto expect = [&](int offset, const json& id, const char* label) {
    ASSERT_TRUE(answers.contains(offset)) << offset << result.standard_error;
    EXPECT_EQ(answers[offset]["id"], id);
    EXPECT_EQ(answers[offset]["label"], label) << offset;
  };
  expect(0, 16777217, "good");
  expect(1, 0.5, "bad");
  expect(4, 0, "good");
  expect(1504, "late", "bad");
  EXPECT_GE(answers.size(), 1503U);
}

TEST_F(PredictStream, RowsAreNoneThatNobodyHasNamed) {
  cluster_.make_topic("rows", 1);
  for (int i = 0; i < 20; ++i) cluster_.put("rows", 0, "", "1,b b");
  cluster_.put("rows", 0, "", "1,b, b");
  cluster_.put("rows", 0, "", "2,a");
  cluster_.flush();
  cluster_.make_topic("answers", 1);
  std::vector<std::string> all{sullae_program(), "predict",
                               model_.string(),  "--once",
                               "--source",       cluster_.address("rows"),
                               "--sink",         cluster_.address("answers")};
  const auto unnamed = run_program(all, environment());
  EXPECT_EQ(unnamed.exit_code, 1);
  EXPECT_TRUE(contains(unnamed.standard_error,
                       "partition 0, offset 0: is neither a JSON object nor a tf.train.Example: "
                       "expected --data-format csv or tsv"))
      << unnamed.standard_error;
  all.insert(all.end(), {"--data-format", "csv", "--text-columns", "2"});
  const auto named = run_program(all, environment());
  EXPECT_EQ(named.exit_code, 0) << named.standard_error;
  EXPECT_EQ(cluster_.read("answers", 1).size(), 22U);
}

TEST_F(PredictStream, FlagsByWhichAllAreDamagedAreAnErrorEvenWhereTheyAreSkipped) {
  put(0, 90);
  const auto error = error_of_predict({"--skip-damaged", "--text-columns", "document"});
  EXPECT_TRUE(contains(error, "all of the first ")) << error;
  EXPECT_TRUE(contains(error, "(--data-format, --text-columns)")) << error;
  EXPECT_EQ(predict({"--columns", "id"}).standard_output, "predicted 90 messages\n")
      << "nothing was committed";
}

TEST_F(PredictStream, KillsLoseNothing) {
  constexpr int kKills = 20;
  std::mt19937 random(3);
  int count = 0;
  for (int kill = 0; kill < kKills; ++kill) {
    put(count, 200);
    count += 200;
    Program program(words({"--columns", "id", "--batch-size", "8", "--workers", "1"}),
                    environment());
    // Some before it has a partition, most amid its work.
    std::this_thread::sleep_for(std::chrono::milliseconds(2500 + random() % 2500));
    program.signal(SIGKILL);
    program.wait();
  }
  const auto result = predict({"--columns", "id"});
  EXPECT_EQ(result.exit_code, 0) << result.standard_error;
  expect_all(count);
}

TEST_F(PredictStream, RefusesWhatCannotBe) {
  const std::string reviews = cluster_.address("reviews");
  const auto run = [&](const std::vector<std::string>& options) {
    std::vector<std::string> all{sullae_program(), "predict", model_.string()};
    all.insert(all.end(), options.begin(), options.end());
    const auto result = run_program(all, environment());
    EXPECT_NE(result.exit_code, 0);
    return result.standard_error;
  };
  EXPECT_TRUE(contains(run({}), "expected --data and --output, or --source and --sink"));
  EXPECT_TRUE(contains(run({"--source", reviews}), "--source requires --sink"));
  EXPECT_TRUE(contains(run({"--source", reviews, "--sink", reviews}), "expected another topic"));
  EXPECT_TRUE(contains(run({"--source", reviews + "?0=0-5", "--sink", reviews}),
                       "expected a topic without offsets: its group says what comes next"));
  EXPECT_TRUE(contains(run({"--source", "reviews", "--sink", reviews}),
                       "expected kafka://HOST:PORT[,HOST:PORT…]/TOPIC"));
  EXPECT_TRUE(contains(run({"--source", reviews, "--sink", reviews, "--data", "x"}),
                       "--data excludes --source"));
  EXPECT_TRUE(contains(error_of_predict({"--format", "parquet"}),
                       "--format parquet: expected one of jsonl, csv, tfrecord"));
  EXPECT_TRUE(contains(error_of_predict({"--columns", "offset"}),
                       "'offset' is what a prediction has by that name"));
}

}  // namespace
}  // namespace sullae::testing
