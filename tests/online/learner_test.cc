// Online learning as a whole: samples in, better versions out.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "online/example_store.h"
#include "online/lock.h"
#include "online/online_model.h"
#include "online/small_repository.h"
#include "repository/serving_state.h"
#include "sullae/online.h"
#include "support/errors.h"
#include "support/program.h"
#include "support/wait_until.h"
#include "train/export.h"
#include "train/small_prose.h"

namespace sullae::testing {
namespace {

using namespace online;

constexpr const char* kLearning = "epochs = 4\nbatch_size = 12\nlearning_rate = 0.05\n";

class Online : public SmallRepository {
 protected:
  Online() { configure(std::string(kLearning) + "tolerance = 10\n"); }
  void give(const std::vector<train::AddedSample>& samples, const std::string& author = "kim") {
    ExampleChange change{.examples = {}, .author = author};
    for (const auto& sample : samples)
      change.examples.push_back({.key = {}, .input = sample.input, .label = sample.label});
    ExampleStore(database_).put(std::vector{change});
  }
  // Which does not go well.
  std::string learn_in_vain() {
    return run_ranks_catching({.size = 1}, [&](World& world) {
      learn_online({.repository = repository_, .once = true}, world);
    })[0];
  }
  void learn(int ranks = 1) {
    run_ranks({.size = ranks}, [&](World& world) {
      learn_online({.repository = repository_, .once = true}, world);
    });
  }
};

TEST_F(Online, PublishesWhatIsBetter) {
  give(praised_twists(12), "kim");
  give(praised_twists(20), "lee");
  learn();
  const auto round = last_round();
  EXPECT_EQ(round.state, RoundState::published) << round.reason;
  EXPECT_EQ(round.parent, 1);
  EXPECT_EQ(round.version, 2);
  EXPECT_EQ(round.since, 0);
  EXPECT_EQ(round.revision, 20);
  EXPECT_EQ(round.authors, (std::map<std::string, std::int64_t>{{"kim", 12}, {"lee", 8}}));
  EXPECT_EQ(round.result.changed.samples, 20U);
  EXPECT_GT(round.result.changed.after.accuracy, round.result.changed.before.accuracy);
  EXPECT_GE(round.ended, round.started);
  EXPECT_EQ(round.step, round.steps);
  EXPECT_EQ(versions(), (std::set<std::int64_t>{1, 2}));
  const auto metadata = read_checkpoint_metadata(model_ / "2" / "model.ckpt");
  EXPECT_EQ(train::description_of(metadata, "").recipe, "text");
  EXPECT_EQ(metadata.numbers.at("online-revision"), 20);

  // The next round starts from there, and counts what has changed since.
  give({{"dull again", "0"}, {"what a twist in film3", "0"}});
  learn();
  EXPECT_EQ(last_round().parent, 2);
  EXPECT_EQ(last_round().since, 20);
  EXPECT_EQ(last_round().result.changed.samples, 2U);
  EXPECT_EQ(last_round().result.earlier.samples, 19U) << "one of them has changed again";
}

TEST_F(Online, SeveralRanksPublishOnce) {
  give(praised_twists(20));
  learn(3);
  EXPECT_EQ(last_round().state, RoundState::published) << last_round().reason;
  EXPECT_EQ(versions(), (std::set<std::int64_t>{1, 2}));
}

TEST_F(Online, LooksAfterAllModelsOrThoseItIsTold) {
  std::filesystem::copy(model_, repository_ / "another", std::filesystem::copy_options::recursive);
  const auto other = repository_ / "another" / "examples.db";
  give(praised_twists(20));
  ExampleStore(other).put(std::vector{ExampleChange{
      .examples = {{.key = {}, .input = "what a twist", .label = "1"}}, .author = "lee"}});
  run_ranks({.size = 1}, [&](World& world) {
    learn_online({.repository = repository_, .models = {"another"}, .once = true}, world);
  });
  EXPECT_EQ(RoundStore(other).newest(10).size(), 1U);
  EXPECT_TRUE(RoundStore(database_).newest(10).empty());
  learn();
  EXPECT_EQ(RoundStore(other).newest(10).size(), 1U);
  EXPECT_EQ(last_round().state, RoundState::published) << last_round().reason;
}

TEST_F(Online, PublishesNothingThatIsNotBetter) {
  give(praised_twists(20));
  configure("learning_rate = 1e-12\n");
  learn();
  EXPECT_EQ(last_round().state, RoundState::rejected);
  EXPECT_TRUE(contains(last_round().reason, "not better on the changed samples: "))
      << last_round().reason;
  EXPECT_EQ(versions(), (std::set<std::int64_t>{1}));
}

TEST_F(Online, PublishesNothingThatIsWorseElsewhere) {
  std::vector<train::AddedSample> nonsense;
  for (const std::string word : {"good", "great", "warm", "clever"}) {
    for (int i = 0; i < 10; ++i)
      nonsense.push_back({fmt::format("film{} is {} and {}", 100 + i, word, word), "0"});
  }
  give(nonsense);
  configure("epochs = 40\nbatch_size = 12\nlearning_rate = 0.1\nreplay = 0\ntolerance = 1\n");
  learn();
  EXPECT_EQ(last_round().state, RoundState::rejected);
  EXPECT_TRUE(contains(last_round().reason, "worse elsewhere: ")) << last_round().reason;
  EXPECT_TRUE(contains(last_round().reason, "more than the tolerance of 1 (percentage points)"));
  EXPECT_EQ(versions(), (std::set<std::int64_t>{1}));
}

TEST_F(Online, StartsFromWhatIsServedAndLetsWhatWasRolledBackBe) {
  give(praised_twists(20));
  learn();
  ASSERT_EQ(last_round().version, 2);
  repository::write_serving_state(model_, {.serving = 1, .withdrawn = {2}});
  configure(std::string(kLearning) + "min_examples = 1\ntolerance = 10\n");
  {
    OnlineModel model(model_, "texts");
    EXPECT_FALSE(model.begin(false)) << "nothing has changed since the last round";
  }
  give({{"dull again", "0"}});
  learn();
  EXPECT_EQ(last_round().parent, 1);
  EXPECT_EQ(last_round().since, 0) << "and not what version 2 had learnt";
  EXPECT_EQ(last_round().result.changed.samples, 21U);
  EXPECT_EQ(last_round().version, 3);
}

TEST_F(Online, RecordsWhatAProcessThatWasKilledHasLeft) {
  give(praised_twists(20));
  {
    RoundStore rounds(database_);
    Round training{.parent = 1, .revision = 20};
    rounds.begin(training);
    Round lost{.state = RoundState::publishing, .parent = 1, .revision = 20};
    rounds.begin(lost);
    Round written{.state = RoundState::publishing, .parent = 1, .revision = 20};
    rounds.begin(written);
    // The version is there, and the process was killed before it could say so.
    torch::nn::Linear network(2, 2);
    const CheckpointMetadata metadata{
        .numbers = {{"online-round", written.id}},
        .texts = {{"online-samples", ExampleStore(database_).identity()}}};
    train::export_version(repository_, "texts", [&](const std::filesystem::path& file) {
      save_checkpoint(file, *network, nullptr, {.metadata = metadata});
    });
  }
  const OnlineModel model(model_, "texts");
  const auto rounds = RoundStore(database_).newest(3);
  EXPECT_EQ(rounds[2].state, RoundState::interrupted);
  EXPECT_EQ(rounds[1].state, RoundState::interrupted);
  EXPECT_EQ(rounds[0].state, RoundState::published);
  EXPECT_EQ(rounds[0].version, 2);
}

TEST_F(Online, ANewFileOfSamplesBeginsAnew) {
  give(praised_twists(20));
  learn();
  ASSERT_EQ(last_round().version, 2);
  for (const char* end : {"", "-wal", "-shm"}) std::filesystem::remove(database_.string() + end);
  give(praised_twists(10));
  learn();
  EXPECT_EQ(last_round().parent, 2);
  EXPECT_EQ(last_round().since, 0) << "revision 20 was another file's";
  EXPECT_EQ(last_round().result.changed.samples, 10U);
}

// A model that writes learns from texts, of which some are longer than what it sees at once.
TEST_F(Online, AWriterLearnsToWriteOtherwise) {
  export_small_writer(directory_.path() / "prose", repository_);
  const auto writer = repository_ / "writer";
  put_text(writer / "config.toml",
           "[online]\nepochs = 20\nlearning_rate = 0.02\nreplay = 1\ntolerance = 50\n");
  const auto give_texts = [&](int from, int to) {
    ExampleChange change{.examples = {}, .author = "kim"};
    for (int i = from; i < to; ++i) {
      std::string text;
      for (int line = 0; line <= i; ++line) text += "seven six five four three two one\n";
      change.examples.push_back({.key = {}, .input = text, .label = kNoLabel});
    }
    ExampleStore(writer / "examples.db").put(std::vector{change});
  };
  const auto learn_once = [&](int ranks) {
    run_ranks({.size = ranks}, [&](World& world) {
      learn_online({.repository = repository_, .models = {"writer"}, .once = true}, world);
    });
    return RoundStore(writer / "examples.db").newest(1).at(0);
  };
  give_texts(0, 6);
  const Round first = learn_once(2);
  EXPECT_EQ(first.state, RoundState::published) << first.reason;
  EXPECT_GT(first.result.changed.samples, 6U) << "long texts are several";
  EXPECT_GT(first.result.changed.after.accuracy, first.result.changed.before.accuracy);
  EXPECT_GT(first.result.changed.after.accuracy, 0.5);
  const auto written = run_program({sullae_program(), "generate", writer, "--prompt", "seven six",
                                    "--temperature", "0", "--max-tokens", "3"});
  EXPECT_EQ(written.exit_code, 0) << written.standard_error;
  // Those of earlier rounds are not new.
  give_texts(6, 8);
  const Round second = learn_once(1);
  EXPECT_EQ(second.result.earlier.samples, first.result.changed.samples);
  EXPECT_EQ(second.since, 6);
}

// A server writes into the new one.
TEST_F(Online, AFileOfSamplesMayTakeTheOthersPlaceMeanwhile) {
  configure(std::string(kLearning) + "min_examples = 1\ntolerance = 10\n");
  give(praised_twists(20));
  Program program({sullae_program(), "online", repository_, "--poll-secs", "0.05"});
  wait_until([&] { return versions().contains(2); });
  for (const char* end : {"", "-wal", "-shm"}) std::filesystem::remove(database_.string() + end);
  give(praised_twists(10));
  wait_until([&] { return RoundStore(database_).counts()["published"] == 1; });
  program.signal(SIGTERM);
  program.wait();
  EXPECT_EQ(versions(), (std::set<std::int64_t>{1, 2, 3}));
  EXPECT_EQ(last_round().result.changed.samples, 10U);
}

TEST_F(Online, SaysWhatIsWrong) {
  const auto refusal = [](const OnlineOptions& options) {
    return run_ranks_catching({.size = 1}, [&](World& world) { learn_online(options, world); })[0];
  };
  EXPECT_TRUE(contains(refusal({.repository = "/nonexistent", .once = true}),
                       "/nonexistent: is no folder; expected a model repository"));
  EXPECT_TRUE(contains(refusal({.repository = repository_, .models = {"other"}, .once = true}),
                       "there is no model 'other'"));
  learn();
  EXPECT_FALSE(std::filesystem::exists(database_)) << "without samples nothing is made";

  give(praised_twists(20));
  configure("data = '/nonexistent'\n");
  EXPECT_TRUE(contains(learn_in_vain(), "model texts has not learnt: /nonexistent: "));
  EXPECT_EQ(last_round().state, RoundState::failed);
  EXPECT_TRUE(contains(last_round().reason, "/nonexistent: there is no such file or folder"))
      << last_round().reason;
  configure("enabled = false\n");
  learn();
  EXPECT_EQ(last_round().id, 1);
  configure("epochs = 0\n");
  EXPECT_TRUE(contains(learn_in_vain(), "expected a whole number from 1 to 1000, got 0"));
  EXPECT_EQ(last_round().id, 1) << "a configuration that cannot be read is none's";

  // A version that is TorchScript.
  configure(kLearning);
  put_constant(model_, 2, 1);
  learn_in_vain();
  EXPECT_TRUE(contains(last_round().reason, "TorchScript modules are not trained further"))
      << last_round().reason;
  repository::write_serving_state(model_, {.serving = 1, .withdrawn = {}});
  learn();
  EXPECT_EQ(last_round().state, RoundState::published) << last_round().reason;
  repository::write_serving_state(model_, {.serving = last_round().version, .withdrawn = {}});
  const auto rounds = last_round().id;
  learn();
  EXPECT_EQ(last_round().id, rounds) << "a look that finds nothing is no round";
  RoundStore(database_).call("kim");
  learn();
  EXPECT_EQ(last_round().state, RoundState::failed);
  EXPECT_TRUE(contains(last_round().reason, "no sample has changed since version 3 was trained"))
      << last_round().reason;
}

TEST_F(Online, AModelThatCannotLearnHarmsNoOther) {
  std::filesystem::create_directories(repository_ / "another");
  std::ofstream(repository_ / "another" / "examples.db") << std::string(10'000, 'x');
  configure(std::string(kLearning) + "min_examples = 1\ntolerance = 10\n");
  give(praised_twists(20));
  Program program({sullae_program(), "online", repository_, "--poll-secs", "0.05"});
  wait_until([&] {
    return std::filesystem::exists(database_) && !RoundStore(database_).newest(1).empty() &&
           last_round().state == RoundState::published;
  });
  program.signal(SIGTERM);
  const auto result = program.wait();
  EXPECT_TRUE(contains(result.standard_error, "model another: does not learn: "))
      << result.standard_error;
  // Who is told to learn for it says so.
  const auto named =
      run_program({sullae_program(), "online", repository_, "--model", "another", "--once"});
  EXPECT_EQ(named.exit_code, 1);
  EXPECT_TRUE(contains(named.standard_error, "examples.db")) << named.standard_error;
}

// Whoever starts it again and again looks at how it ended.
TEST_F(Online, OnceSaysByItsEndThatItFailed) {
  give(praised_twists(5));
  const auto once = [&] {
    return run_program({sullae_program(), "online", repository_, "--once"});
  };
  configure("min_exampels = 2\n");
  const auto refused = once();
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_TRUE(contains(refused.standard_error, "has not learnt: ")) << refused.standard_error;
  EXPECT_TRUE(contains(refused.standard_error, "'min_exampels' is no setting"));
  configure(std::string(kLearning) + "data = \"/nowhere\"\n");
  EXPECT_EQ(once().exit_code, 1);
  configure(std::string(kLearning) + "tolerance = 100\n");
  EXPECT_EQ(once().exit_code, 0);
  EXPECT_EQ(once().exit_code, 0) << "nothing waits";
}

TEST_F(Online, RemovesOldVersionsThatItPublished) {
  configure(std::string(kLearning) + "tolerance = 100\nkeep_versions = 2\n");
  for (int round = 0; round < 4; ++round) {
    // What was praised is blamed, and the other way round.
    auto samples = praised_twists(20);
    for (auto& sample : samples) sample.label = std::to_string((round + 1) % 2);
    give(samples);
    learn();
    ASSERT_EQ(last_round().state, RoundState::published) << last_round().reason;
    // Version 3 is what is served, whatever else there is.
    if (round >= 1) repository::write_serving_state(model_, {.serving = 3, .withdrawn = {}});
  }
  EXPECT_EQ(versions(), (std::set<std::int64_t>{1, 3, 4, 5}))
      << "1 was exported by hand, 3 is served, 4 and 5 are the newest";
}

// As a process, killed at whatever moment: each version that is there is whole, and samples are
// learnt at last.
TEST_F(Online, StandsBeingKilled) {
  give(praised_twists(20));
  configure(std::string(kLearning) + "min_examples = 1\ntolerance = 10\n");
  const auto start = [&] {
    return std::make_unique<Program>(
        std::vector<std::string>{sullae_program(), "online", repository_, "--poll-secs", "0.05"});
  };
  for (int attempt = 0; attempt < 6; ++attempt) {
    auto process = start();
    std::this_thread::sleep_for(std::chrono::milliseconds(150 + 60 * attempt));
    process->signal(SIGKILL);
    process->wait();
    EXPECT_FALSE(OnlineLock::is_held(model_));
    for (const std::int64_t version : versions())
      EXPECT_NO_THROW(read_checkpoint_metadata(model_ / std::to_string(version) / "model.ckpt"))
          << "attempt " << attempt;
  }
  const auto process = start();
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(120);
  const RoundStore rounds(database_);
  const auto published = [&] {
    return rounds.counts()["published"] == 1;
  };
  while (!published() && std::chrono::steady_clock::now() < limit)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  if (!published()) {
    process->signal(SIGTERM);
    std::string told = process->wait().standard_error;
    for (const Round& round : rounds.newest(10)) told += '\n' + json_of(round).dump();
    FAIL() << "nothing was published:\n" << told;
  }
  EXPECT_EQ(versions(), (std::set<std::int64_t>{1, 2})) << "published once";
  for (const auto& entry : std::filesystem::directory_iterator(model_))
    EXPECT_FALSE(entry.path().filename().string().starts_with(".making")) << entry.path();
  // One of those that were killed may have published, and this one have only begun to look.
  while (!OnlineLock::is_held(model_) && std::chrono::steady_clock::now() < limit)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const auto second = run_program({sullae_program(), "online", repository_, "--once"});
  EXPECT_EQ(second.exit_code, 1);
  EXPECT_TRUE(contains(second.standard_error, "another process learns for this model"))
      << second.standard_error;
}

}  // namespace
}  // namespace sullae::testing
