// A round of a model from its begin to its end, while others change what it began with.
#include "online/online_model.h"

#include <gtest/gtest.h>

#include "online/model_stores.h"
#include "online/small_repository.h"
#include "repository/serving_state.h"

namespace sullae::testing {
namespace {

using namespace online;

class OnlineModels : public SmallRepository {
 protected:
  OnlineModels() { configure("min_examples = 1\n"); }
  void give(const std::string& text) {
    ExampleStore(database_).put(
        {{.examples = {{.key = {}, .input = text, .label = "1"}}, .author = "kim"}});
  }
  static train::FineTuneResult better() {
    train::FineTuneResult result;
    result.changed = {.before = {.loss = 2, .accuracy = 0.5, .counted = 1},
                      .after = {.loss = 1, .accuracy = 1, .counted = 1},
                      .samples = 1};
    result.steps = 1;
    return result;
  }
  // What the rounds need of a network is that it can be written.
  static bool finish(OnlineModel& model) {
    return model.finish(better(), *torch::nn::Linear(2, 2));
  }
  void publish_next() {
    OnlineModel model(model_, "texts");
    ASSERT_TRUE(model.begin(true));
    ASSERT_TRUE(finish(model));
  }
};

TEST_F(OnlineModels, WhatIsRolledBackDuringARoundHasNoSuccessor) {
  give("one");
  publish_next();
  repository::write_serving_state(model_, {.serving = 2});
  give("two");
  OnlineModel model(model_, "texts");
  ASSERT_TRUE(model.begin(false));
  repository::write_serving_state(model_, {.serving = 1, .withdrawn = {2}});
  EXPECT_FALSE(finish(model));
  EXPECT_EQ(versions(), (std::set<std::int64_t>{1, 2}));
  EXPECT_EQ(last_round().state, RoundState::interrupted);
  EXPECT_EQ(last_round().reason,
            "version 2, which the training began with, has given way to version 1: it begins "
            "again");
  // From what answers by now, at once.
  const auto again = model.begin(false);
  ASSERT_TRUE(again);
  EXPECT_EQ(last_round().parent, 1);
  EXPECT_EQ(last_round().since, 0);
  EXPECT_TRUE(finish(model));
  EXPECT_EQ(last_round().version, 3);
}

TEST_F(OnlineModels, WhatWasRolledBackIsNotMadeAgain) {
  give("one");
  publish_next();
  repository::write_serving_state(model_, {.serving = 1, .withdrawn = {2}});
  OnlineModel model(model_, "texts");
  EXPECT_FALSE(model.begin(true));
  give("two");
  EXPECT_TRUE(model.begin(true));
}

// Nor does another take the number of what was rolled back, and removed.
TEST_F(OnlineModels, AVersionThatIsGoneLeavesNoNumber) {
  give("one");
  publish_next();
  repository::write_serving_state(model_, {.serving = 1, .withdrawn = {2}});
  std::filesystem::remove_all(model_ / "2");
  give("two");
  publish_next();
  EXPECT_EQ(versions(), (std::set<std::int64_t>{1, 3}));
}

TEST_F(OnlineModels, WhatHasFailedIsMadeAgainLaterOrWhenSomethingChanges) {
  give("one");
  OnlineModel model(model_, "texts");
  ASSERT_TRUE(model.begin(false));
  model.fail("a disk is full");
  EXPECT_FALSE(model.begin(false));
  give("two");
  ASSERT_TRUE(model.begin(false));
  model.fail("a disk is full");
  EXPECT_FALSE(model.begin(false));
  EXPECT_TRUE(model.begin(true)) << "who asks for it at once";
}

TEST_F(OnlineModels, ARoundBeginsWithWhatTheOneBeforeHasPublished) {
  repository::write_serving_state(model_, {.serving = 1});
  give("one");
  OnlineModel model(model_, "texts");
  ASSERT_TRUE(model.begin(false));
  ASSERT_TRUE(finish(model));
  give("two");
  EXPECT_FALSE(model.begin(false)) << "the server has not taken it up yet";
  repository::write_serving_state(model_, {.serving = 2});
  EXPECT_TRUE(model.begin(false));
  EXPECT_EQ(last_round().parent, 2);
}

TEST_F(OnlineModels, AVersionPutThereDuringARoundIsNotDisplaced) {
  give("one");
  OnlineModel model(model_, "texts");
  ASSERT_TRUE(model.begin(false));
  std::filesystem::copy(model_ / "1", model_ / "2", std::filesystem::copy_options::recursive);
  EXPECT_FALSE(finish(model));
  EXPECT_EQ(versions(), (std::set<std::int64_t>{1, 2}));
}

// SQLite would bring back what the backup has not.
TEST_F(OnlineModels, ABackupBesideTheLogOfTheFileBeforeIsNotOpened) {
  give("one");
  ModelStores stores(model_.parent_path());
  const auto store = stores.of("texts");
  store->examples.put(
      {{.examples = {{.key = "k", .input = "two", .label = "good"}}, .author = "somebody"}});
  const auto backup = directory_.path() / "backup.db";
  std::filesystem::copy(database_, backup);
  std::filesystem::rename(backup, database_);
  EXPECT_TRUE(
      contains(error_of([&] { stores.of("texts"); }), "another file was put there, beside "));
  EXPECT_TRUE(contains(error_of([&] { stores.of("texts"); }), "'.restore BACKUP'"));
  for (const char* end : {"-wal", "-shm"}) std::filesystem::remove(database_.string() + end);
  EXPECT_NO_THROW(stores.of("texts"));
}

// Of a model before, say, that was taught other classes.
TEST_F(OnlineModels, SamplesOfUnknownLabelsAreLeftOut) {
  give("one");
  ExampleStore(database_).put(
      {{.examples = {{.key = "k", .input = "two", .label = "other"}}, .author = "somebody"}});
  OnlineModel model(model_, "texts");
  const auto job = model.begin(false);
  ASSERT_TRUE(job);
  EXPECT_EQ(job->added.size(), 1U);
}

// Revisions and numbers of rounds are given again by a file that was put back.
TEST_F(OnlineModels, SamplesGivenToABackupAreLearntToo) {
  give("one");
  publish_next();
  const auto backup = directory_.path() / "backup.db";
  std::filesystem::copy(database_, backup);
  give("two");
  give("three");
  publish_next();
  ASSERT_EQ(last_round().revision, 3);
  for (const char* end : {"-wal", "-shm"}) std::filesystem::remove(database_.string() + end);
  std::filesystem::rename(backup, database_);
  give("four");
  OnlineModel model(model_, "texts");
  const auto job = model.begin(false);
  ASSERT_TRUE(job);
  EXPECT_EQ(last_round().parent, 3);
  EXPECT_EQ(last_round().since, 1) << "what version 2 has learnt, and not the lost 3";
  EXPECT_EQ(job->added.size() - job->first_changed, 1U);
}

TEST_F(OnlineModels, ProgressThatCannotBeKeptEndsNoRound) {
  give("one");
  OnlineModel model(model_, "texts");
  ASSERT_TRUE(model.begin(false));
  Database other(database_);
  other.execute("DROP TABLE rounds");
  model.progress(1, 2);
  model.progress(2, 2);
}

}  // namespace
}  // namespace sullae::testing
