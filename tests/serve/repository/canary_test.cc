// A share of the requests for a version that nobody has promoted yet.
#include <gtest/gtest.h>

#include "serve/repository/served_constants.h"
#include "support/errors.h"

namespace sullae::testing {
namespace {

using namespace serve;

class Canaries : public ServedConstants {
 protected:
  // As new versions are to begin.
  void start_with_half_for_the_second() {
    put_text(model_ / "config.toml", std::string("new_version_percent = 50\n") + kConstantConfig);
    put_constant(model_, 1, 1);
    start();
    wait_for(1);
    put_constant(model_, 2, 2);
    wait_until([&] { return repository_->status("m").canary == 2; });
  }
};

TEST_F(Canaries, GetTheirShare) {
  put_constant(model_, 1, 1);
  put_constant(model_, 2, 2);
  start();
  wait_for(2);
  EXPECT_EQ(error_of([&] { repository_->set_canary("m", 2, 30); }),
            "model 'm': version 2 answers already: expected another one for a share of the "
            "requests");
  repository_->set_canary("m", 1, 30);
  EXPECT_EQ(error_of([&] { repository_->set_canary("m", 2, 0); }),
            "model 'm': version 2 has no share of the requests, but 1");
  EXPECT_EQ(error_of([&] { repository_->set_canary("m", 7, 0); }), "model 'm' has no version 7");
  wait_until([&] { return repository_->status("m").versions[0].state == VersionState::ready; });
  const auto share = [&] {
    int canary = 0;
    for (int i = 0; i < 200; ++i) canary += ask() == 1 ? 1 : 0;
    return canary;
  };
  EXPECT_EQ(share(), 60);
  // Whatever clients send in turn: every second request finds about as many canaries.
  int canary = 0;
  for (int i = 0; i < 1000; ++i) {
    canary += ask() == 1 ? 1 : 0;
    ask();
  }
  EXPECT_GT(canary, 200);
  EXPECT_LT(canary, 400);
  EXPECT_EQ(ask("1"), 1);
  repository_->set_canary("m", 1, 0);
  wait_until([&] { return version(1).state == VersionState::waiting; });
  EXPECT_EQ(share(), 0);
  // Promoted, although it is not the newest.
  repository_->set_canary("m", 1, 100);
  wait_for(1);
  EXPECT_EQ(share(), 200);
  EXPECT_TRUE(contains(error_of([&] { repository_->set_canary("m", 7, 5); }),
                       "model 'm' has no version 7"));
  EXPECT_TRUE(contains(error_of([&] { repository_->set_canary("m", 1, 101); }),
                       "percent 101: expected 0 to 100"));
}

TEST_F(Canaries, NewVersionsCanBeginAsOne) {
  start_with_half_for_the_second();
  EXPECT_EQ(repository_->status("m").serving, 1);
  EXPECT_EQ(ask() + ask(), 3);
  repository_->set_canary("m", 2, 100);
  wait_until([&] { return ask() + ask() == 4; });
}

// Nobody has promoted it: not the end of its share, not a restart, and not the version after it.
TEST_F(Canaries, AnswerForAllWhenTheyArePromotedAlone) {
  put_text(model_ / "config.toml", std::string("new_version_percent = 50\n") + kConstantConfig);
  put_constant(model_, 1, 1);
  start();
  wait_for(1);
  const auto expect_canary = [&](std::int64_t number) {
    wait_until([&] { return repository_->status("m").canary == number; });
    EXPECT_EQ(repository_->status("m").serving, 1);
    EXPECT_EQ(ask() + ask(), 1.0F + static_cast<float>(number));
  };
  put_constant(model_, 2, 2);
  expect_canary(2);
  // Ended.
  EXPECT_EQ(repository_->set_canary("m", 2, 0).serving, 1);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(ask(), 1);
  EXPECT_EQ(version(2).state, VersionState::waiting);
  EXPECT_EQ(version(2).reason, "was a canary, and is not promoted");
  EXPECT_EQ(repository_->reload("m").serving, 1);
  // Begun again, with another share, which a restart leaves.
  repository_->set_canary("m", 2, 25);
  EXPECT_EQ(ask("2"), 2);
  repository_.reset();
  start();
  EXPECT_EQ(repository_->status("m").canary_percent, 25);
  EXPECT_EQ(repository_->status("m").serving, 1);
  EXPECT_EQ(ask("2"), 2);
  // Two more, while nobody serves and while somebody does: the newest is the canary.
  repository_.reset();
  put_constant(model_, 3, 3);
  put_constant(model_, 4, 4);
  start();
  expect_canary(4);
  put_constant(model_, 5, 5);
  expect_canary(5);
  EXPECT_EQ(version(4).state, VersionState::waiting);
  // Promoted, and rolled back: to what answered before, and not to a canary.
  EXPECT_EQ(repository_->set_canary("m", 5, 100).serving, 5);
  EXPECT_EQ(ask() + ask(), 10);
  EXPECT_EQ(repository_->roll_back("m").serving, 1);
}

TEST_F(Canaries, AreNoneThatThePolicyLeavesOut) {
  put_text(model_ / "config.toml",
           std::string("version_policy = \"1,3\"\nnew_version_percent = 10\n") + kConstantConfig);
  for (const int number : {1, 2, 3}) put_constant(model_, number, number);
  start();
  wait_for(3);
  EXPECT_EQ(error_of([&] { repository_->set_canary("m", 2, 100); }),
            "model 'm': version_policy in config.toml lists 1, 3, and not version 2: expected it "
            "there first");
  EXPECT_EQ(ask(), 3);
  repository_->set_canary("m", 2, 50);  // by a word of its own
  wait_until([&] { return version(2).state == VersionState::ready; });
  repository_->set_canary("m", 2, 0);
  put_constant(model_, 5, 5);
  wait_until([&] { return version(5).state == VersionState::waiting; });
  EXPECT_EQ(repository_->status("m").canary, 0);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(ask(), 3);
}

TEST_F(Canaries, AnswerWhereNothingElseIsThere) {
  start_with_half_for_the_second();
  repository_.reset();
  std::filesystem::remove_all(model_ / "1");
  start();
  EXPECT_EQ(ask() + ask(), 4);
  EXPECT_EQ(repository_->status("m").canary, 0);
}

}  // namespace
}  // namespace sullae::testing
