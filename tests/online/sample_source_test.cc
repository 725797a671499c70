// `sullae online --source`: samples from a topic, durably, and what is learnt of them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <csignal>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "online/example_store.h"
#include "online/round_store.h"
#include "serve/models.h"
#include "sullae/online.h"
#include "support/errors.h"
#include "support/kafka_cluster.h"
#include "support/program.h"
#include "support/temporary_directory.h"
#include "support/variable.h"
#include "train/small_texts.h"

namespace sullae::testing {
namespace {

using namespace online;

class OnlineFromTopic : public ::testing::Test {
 protected:
  OnlineFromTopic() {
    export_small_texts(directory_.path() / "data", repository_);
    put_text(model_ / "config.toml",
             "[online]\nepochs = 4\nbatch_size = 12\nlearning_rate = 0.05\ntolerance = 10\n");
    cluster_.make_topic("corrections", 2);
  }
  std::string topic() const { return cluster_.address("corrections"); }
  void put(const std::string& key, const std::string& text, const std::string& label,
           std::int32_t partition = 0) const {
    cluster_.put("corrections", partition, key,
                 nlohmann::json{{"text", text}, {"label", label}}.dump());
  }
  // The error that it ends with.
  std::string learn(OnlineSource source = {},
                    const std::vector<std::string>& models = {"texts"}) const {
    source.topic = topic();
    std::string error;
    run_ranks({.size = 1}, [&](World& world) {
      error = error_of([&] {
        learn_online({.repository = repository_, .models = models, .once = true, .source = source},
                     world);
      });
    });
    return error;
  }
  std::map<std::string, std::string> stored() const {
    std::map<std::string, std::string> labels;
    for (const auto& one : ExampleStore(database_).all())
      labels[one.example.input] = one.example.label;
    return labels;
  }

  KafkaCluster cluster_;
  Variable config_{"SULLAE_KAFKA_CONFIG", cluster_.config().c_str()};
  TemporaryDirectory directory_;
  std::filesystem::path repository_ = directory_.path() / "models";
  std::filesystem::path model_ = repository_ / "texts";
  std::filesystem::path database_ = model_ / "examples.db";
};

TEST_F(OnlineFromTopic, MessagesAreLearntAndTakenBack) {
  for (int i = 0; i < 20; ++i)
    put(fmt::format("k{}", i), fmt::format("what a twist in film{}", i), "1", i % 2);
  put("", "no key", "0");
  cluster_.flush();
  EXPECT_EQ(learn(), "nothing was thrown");
  const auto round = RoundStore(database_).newest(1).at(0);
  EXPECT_EQ(round.state, RoundState::published) << round.reason;
  EXPECT_EQ(round.authors, (std::map<std::string, std::int64_t>{{"kafka: corrections", 21}}));
  put("k0", "what a twist in film0", "0");
  put("k1", "another twist", "1", 1);
  cluster_.put("corrections", 0, "k2", std::nullopt);
  cluster_.flush();
  EXPECT_EQ(learn(), "nothing was thrown");
  const auto labels = stored();
  EXPECT_EQ(labels.size(), 20U);
  EXPECT_EQ(labels.at("what a twist in film0"), "0");
  EXPECT_EQ(labels.at("another twist"), "1");
  EXPECT_EQ(labels.at("no key"), "0");
  EXPECT_FALSE(labels.contains("what a twist in film1"));
  EXPECT_FALSE(labels.contains("what a twist in film2"));
}

TEST_F(OnlineFromTopic, WhatIsNoSampleIsNamedOrLeftOut) {
  put("a", "good", "1");
  put("b", "good film", "7");
  put("c", "", "1");
  cluster_.put("corrections", 0, "d", R"({"text":"good films"})");
  cluster_.put("corrections", 0, "", std::nullopt);
  cluster_.put("corrections", 0, "e", "{");
  put("f", "bad", "0");
  cluster_.flush();
  EXPECT_EQ(learn(), topic() + ", partition 0, offset 1: its class is '7', expected one of 0, 1");
  EXPECT_EQ(learn({.skip_damaged = true}), "nothing was thrown");
  EXPECT_EQ(stored(), (std::map<std::string, std::string>{{"good", "1"}, {"bad", "0"}}));
}

TEST_F(OnlineFromTopic, TheModelMustBeOneThatLearns) {
  EXPECT_EQ(learn({}, {}),
            topic() + ": is read for one model: expected its name, and no other (--model)");
  std::filesystem::remove(model_ / "1" / "model.ckpt");
  put_text(model_ / "1" / "model.pt", "");
  EXPECT_TRUE(contains(learn(), "is not there: TorchScript modules are not trained further"));
}

TEST_F(OnlineFromTopic, KillsLoseNothing) {
  constexpr int kKills = 5;
  std::mt19937 random(5);
  put_text(model_ / "config.toml", "[online]\nenabled = false\n");
  int count = 0;
  const std::vector<std::string> words{
      sullae_program(), "online", repository_.string(), "--model", "texts", "--source", topic()};
  for (int kill = 0; kill < kKills; ++kill) {
    for (int i = 0; i < 1500; ++i, ++count)
      put(i % 3 == 0 ? "" : fmt::format("k{}", count), fmt::format("text {}", count),
          std::to_string(count % 2), count % 2);
    cluster_.flush();
    Program program(words);
    std::this_thread::sleep_for(std::chrono::milliseconds(3000 + random() % 1500));
    program.signal(SIGKILL);
    program.wait();
  }
  auto last = words;
  last.emplace_back("--once");
  const auto result = run_program(last);
  EXPECT_EQ(result.exit_code, 0) << result.standard_error;
  const auto labels = stored();
  EXPECT_EQ(labels.size(), static_cast<std::size_t>(count));
  EXPECT_EQ(ExampleStore(database_).size(), count);
}

}  // namespace
}  // namespace sullae::testing
