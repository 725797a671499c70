// Any order of events: who is started, who is asked to come out, and which world is made.
#include "launch/elastic/membership.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "support/errors.h"

namespace sullae::testing {
namespace {

using namespace elastic;

// What a Membership is told, and what it wanted done.
struct Trial {
  void begin(const Limits& limits, std::vector<Host> hosts) {
    membership_.emplace(limits);
    membership_->set_hosts(std::move(hosts), now_);
    take();
  }
  void take() {
    for (const Action& action : membership_->take_actions()) {
      if (const auto* start = std::get_if<Start>(&action)) started_.push_back(*start);
      if (const auto* stop = std::get_if<Stop>(&action)) stopped_.push_back(stop->worker);
      if (std::holds_alternative<Interrupt>(action)) ++interrupts_;
      if (std::holds_alternative<Abandon>(action)) ++abandoned_;
      if (const auto* form = std::get_if<Form>(&action)) formed_.push_back(*form);
      if (const auto* note = std::get_if<Note>(&action)) notes_.push_back(note->text);
      if (const auto* fail = std::get_if<Fail>(&action)) failure_ = fail->reason;
    }
  }
  void ready(int worker, const std::string& reason = "") {
    membership_->ready(worker, reason, now_);
    take();
  }
  void ended(int worker, Ending ending, const std::string& how = "was killed") {
    membership_->ended(worker, ending, how, now_);
    take();
  }
  void pass(Milliseconds time) {
    now_ += time;
    membership_->tick(now_);
    take();
  }
  std::vector<int> workers() const { return formed_.back().generation.workers; }
  using Workers = std::vector<int>;

  Time now_{};
  std::optional<Membership> membership_;
  std::vector<Start> started_;
  std::vector<int> stopped_;
  int interrupts_ = 0;
  int abandoned_ = 0;
  std::vector<Form> formed_;
  std::vector<std::string> notes_;
  std::string failure_;
};

class Members : public ::testing::Test, protected Trial {};

TEST_F(Members, StartTogether) {
  begin({.start = 3, .least = 1, .most = 3}, {{"a", 2}, {"b", 2}});
  ASSERT_EQ(started_.size(), 3U);
  EXPECT_EQ(started_[1].host, "a");
  EXPECT_EQ(started_[1].slot, 1);
  EXPECT_EQ(started_[2].host, "b");
  ready(2);
  ready(0);
  EXPECT_TRUE(formed_.empty());
  ready(1);
  ASSERT_EQ(formed_.size(), 1U);
  EXPECT_EQ(workers(), (Workers{0, 1, 2}));
  EXPECT_EQ(interrupts_, 0);
}

TEST_F(Members, GoOnWithoutWhoDied) {
  begin({.start = 3, .least = 2, .most = 3}, {{"a", 3}});
  for (const int worker : {0, 1, 2}) ready(worker);
  ended(0, Ending::failed);
  EXPECT_EQ(abandoned_, 1);
  EXPECT_EQ(started_.size(), 3U);  // the host cools down
  ready(2, "worker 0 is gone");
  EXPECT_EQ(formed_.size(), 1U);  // one still has to come out
  ready(1);
  ASSERT_EQ(formed_.size(), 2U);
  EXPECT_EQ(workers(), (Workers{1, 2}));  // the oldest is rank 0
  EXPECT_TRUE(contains(formed_.back().reason, "worker 0 on a was killed"));
  pass(Milliseconds{1000});
  ASSERT_EQ(started_.size(), 4U);
  EXPECT_EQ(started_[3].slot, 0);
  ready(3);
  EXPECT_EQ(interrupts_, 1);
  ready(1);
  ready(2);
  EXPECT_EQ(workers(), (Workers{1, 2, 3}));
}

TEST_F(Members, OneMembersFailureIsAllMembers) {
  begin({.start = 2, .least = 1, .most = 2}, {{"a", 2}});
  ready(0);
  ready(1);
  ready(0, "a wait timed out");
  EXPECT_EQ(abandoned_, 1);
  ready(1);
  ASSERT_EQ(formed_.size(), 2U);
  EXPECT_EQ(formed_.back().reason, "a wait timed out");
  EXPECT_EQ(workers(), (Workers{0, 1}));
}

// A rank that waits for another may see its death before the launcher does, and says less of it.
TEST_F(Members, ADeathThatIsHeardOfLateIsToldToo) {
  begin({.start = 3, .least = 1, .most = 3}, {{"a", 3}});
  for (const int worker : {0, 1, 2}) ready(worker);
  ready(1, "rank 0 closed its connection");
  ended(0, Ending::failed);
  EXPECT_EQ(abandoned_, 1);
  ASSERT_EQ(notes_.size(), 1U);
  EXPECT_EQ(notes_[0], "generation 0: worker 0 on a was killed");
  ready(2);
  ASSERT_EQ(formed_.size(), 2U);
  EXPECT_EQ(formed_.back().reason, "rank 0 closed its connection, worker 0 on a was killed");
}

TEST_F(Members, TwoDeathsAndOneDuringTheChange) {
  begin({.start = 4, .least = 1, .most = 4, .first_cooldown = Milliseconds{5000}}, {{"a", 4}});
  for (const int worker : {0, 1, 2, 3}) ready(worker);
  ended(1, Ending::failed);
  ended(2, Ending::failed);
  ready(3);
  ended(0, Ending::failed);
  ASSERT_EQ(formed_.size(), 2U);
  EXPECT_EQ(workers(), (Workers{3}));
}

TEST_F(Members, WhoLeavesIsNotReplacedOnAHostThatIsGone) {
  begin({.start = 4, .least = 1, .most = 4}, {{"a", 2}, {"b", 2}});
  for (const int worker : {0, 1, 2, 3}) ready(worker);
  membership_->set_hosts({{"a", 2}}, now_);
  take();
  EXPECT_EQ(interrupts_, 1);
  for (const int worker : {0, 1, 2, 3}) ready(worker);
  EXPECT_EQ(workers(), (Workers{0, 1}));
  EXPECT_EQ(stopped_, (Workers{2, 3}));
  ended(2, Ending::left);
  ended(3, Ending::failed);  // killed by what was sent to it
  EXPECT_EQ(abandoned_, 0);
  membership_->set_hosts({{"a", 2}, {"b", 1}}, now_);
  take();
  EXPECT_EQ(started_.size(), 5U);
}

TEST_F(Members, PauseBelowTheLeastAndGoOn) {
  begin({.start = 2, .least = 2, .most = 2}, {{"a", 2}});
  ready(0);
  ready(1);
  ended(1, Ending::failed);
  ready(0);
  EXPECT_EQ(formed_.size(), 1U);
  EXPECT_TRUE(contains(notes_.back(), "1 of at least 2 ranks are left"));
  pass(Milliseconds{1000});
  ready(2);
  EXPECT_EQ(workers(), (Workers{0, 2}));
}

TEST_F(Members, NotForEver) {
  begin({.start = 2, .least = 2, .most = 2, .timeout = Milliseconds{60000}}, {{"a", 2}});
  ready(0);
  ready(1);
  ended(1, Ending::failed);
  ready(0);
  for (int second = 0; second < 59; ++second) pass(Milliseconds{1000});
  EXPECT_EQ(failure_, "");
  pass(Milliseconds{1000});
  EXPECT_TRUE(contains(failure_, "only 1 rank came within 60 s (--elastic-timeout), expected 2"));
}

TEST_F(Members, AMistakeAtTheStartIsTold) {
  begin({.start = 2, .least = 1, .most = 2}, {{"a", 2}});
  ended(1, Ending::failed, "ended with exit code 2");
  EXPECT_TRUE(contains(failure_, "worker 1 on a ended with exit code 2 before it was ready"));
}

TEST_F(Members, AHostThatIsLostAtTheStartIsNoMistake) {
  begin({.start = 2, .least = 1, .most = 2}, {{"a", 1}, {"b", 1}});
  ready(0);
  membership_->lost("b", "is lost with its host", now_);
  take();
  EXPECT_EQ(failure_, "");
  membership_->set_hosts({{"a", 1}}, now_);
  take();
  pass(Milliseconds{60000});
  EXPECT_EQ(failure_, "");
}

TEST_F(Members, WithFewerAtMostTheYoungestGo) {
  begin({.start = 3, .least = 1, .most = 3}, {{"a", 1}, {"b", 2}});
  for (const int worker : {0, 1, 2}) ready(worker);
  membership_->set_limits(1, 1);
  membership_->set_hosts({{"a", 1}, {"b", 2}}, now_);
  take();
  EXPECT_EQ(interrupts_, 1);
  for (const int worker : {0, 1, 2}) ready(worker);
  EXPECT_EQ(workers(), (Workers{0}));
  EXPECT_EQ(stopped_, (Workers{1, 2}));
  ended(1, Ending::left);
  ended(2, Ending::left);
  membership_->set_limits(1, 2);
  membership_->set_hosts({{"a", 1}, {"b", 2}}, now_);
  take();
  EXPECT_EQ(started_.size(), 4U);
}

TEST_F(Members, NobodyLeftIsTheEnd) {
  begin({.start = 2, .least = 1, .most = 2}, {{"a", 2}});
  ready(0);
  ready(1);
  ended(0, Ending::failed, "ended with exit code 3");
  ended(1, Ending::failed, "ended with exit code 3");
  EXPECT_TRUE(contains(failure_, "no rank is left of the world that had 2"));
}

TEST_F(Members, ChangesAreLimited) {
  begin({.start = 2, .least = 1, .most = 2, .changes = 1}, {{"a", 2}});
  ready(0);
  ready(1);
  ready(0, "failed");
  ready(1);
  EXPECT_EQ(formed_.size(), 2U);
  ready(0, "failed again");
  ready(1);
  EXPECT_TRUE(contains(failure_, "has changed 1 time (--reset-limit)"));
}

TEST_F(Members, HostsCoolDownLongerEachTime) {
  begin({.start = 2, .least = 1, .most = 2, .last_cooldown = Milliseconds{4000}}, {{"a", 2}});
  ready(0);
  ready(1);
  for (const int seconds : {1, 2, 4, 4}) {
    const int last = started_.back().worker;
    ended(last, Ending::failed);
    ready(0);
    const auto before = started_.size();
    pass(Milliseconds{1000 * seconds - 1});
    EXPECT_EQ(started_.size(), before);
    pass(Milliseconds{1});
    ASSERT_EQ(started_.size(), before + 1);
    ready(started_.back().worker);
    ready(0);
  }
}

TEST_F(Members, WhoComesTogetherJoinsTogether) {
  begin({.start = 1, .least = 1, .most = 4}, {{"a", 1}});
  ready(0);
  pass(Milliseconds{1000});
  membership_->set_hosts({{"a", 4}}, now_);
  take();
  EXPECT_EQ(started_.size(), 4U);
  ready(1);
  EXPECT_EQ(interrupts_, 0);
  ready(2);
  pass(Milliseconds{900});
  EXPECT_EQ(interrupts_, 0);
  pass(Milliseconds{100});  // long enough for worker 3
  EXPECT_EQ(interrupts_, 1);
  ready(0);
  EXPECT_EQ(workers(), (Workers{0, 1, 2}));
  ready(3);
  EXPECT_EQ(interrupts_, 2);
}

TEST_F(Members, AStepMayTakeLongerThanAnyLimit) {
  begin({.start = 2, .least = 1, .most = 3, .timeout = Milliseconds{5000}}, {{"a", 3}});
  ready(0);
  ready(1);
  pass(Milliseconds{1000});
  ready(2);
  EXPECT_EQ(interrupts_, 1);
  pass(Milliseconds{100000});
  EXPECT_TRUE(stopped_.empty());
  ready(0);
  ready(1);
  EXPECT_EQ(workers(), (Workers{0, 1, 2}));
}

TEST_F(Members, WhoDoesNotComeOutOfAFailedWorldIsStopped) {
  begin({.start = 3, .least = 1, .most = 3, .timeout = Milliseconds{5000}}, {{"a", 3}});
  for (const int worker : {0, 1, 2}) ready(worker);
  ended(0, Ending::failed);
  ready(1);
  pass(Milliseconds{5000});
  EXPECT_EQ(stopped_, (Workers{2}));
  ended(2, Ending::left);
  EXPECT_EQ(workers(), (Workers{1}));
}

TEST_F(Members, WhoComesOutAfterTheEndIsStopped) {
  begin({.start = 2, .least = 1, .most = 2}, {{"a", 2}});
  ready(0);
  ready(1);
  ended(0, Ending::done);
  ready(1, "rank 0 has left the world");
  EXPECT_EQ(stopped_, (Workers{1}));
  EXPECT_EQ(formed_.size(), 1U);
}

TEST_F(Members, AnEndBeforeTheBeginningIsAFailure) {
  begin({.start = 1, .least = 1, .most = 2}, {{"a", 2}});
  ready(0);
  pass(Milliseconds{1000});
  ASSERT_EQ(workers(), (Workers{0}));
  ended(1, Ending::done, "ended with exit code 0");
  EXPECT_EQ(started_.size(), 2U);  // not at once, and not without end
  pass(Milliseconds{1000});
  EXPECT_EQ(started_.size(), 3U);
  *membership_ = Membership({.start = 1, .least = 1, .most = 1});
  membership_->set_hosts({{"a", 1}}, now_);
  take();
  ended(0, Ending::done, "ended with exit code 0");
  EXPECT_TRUE(contains(failure_, "worker 0 on a ended with exit code 0 before it was ready"));
}

TEST_F(Members, RanksThatAreLostAtOnceAreLostOnce) {
  begin({.start = 4, .least = 1, .most = 4}, {{"a", 1}, {"b", 3}});
  for (const int worker : {0, 1, 2, 3}) ready(worker);
  membership_->lost("b", "is lost with its host", now_);
  take();
  ready(0);
  EXPECT_EQ(workers(), (Workers{0}));
  pass(Milliseconds{1000});
  EXPECT_EQ(started_.size(), 7U);
}

TEST_F(Members, AnEndIsNoReasonToChange) {
  begin({.start = 2, .least = 1, .most = 3}, {{"a", 3}});
  ready(0);
  ready(1);
  pass(Milliseconds{1000});
  ASSERT_EQ(workers(), (Workers{0, 1}));
  ended(0, Ending::done);
  EXPECT_TRUE(membership_->finishing());
  EXPECT_EQ(stopped_, (Workers{2}));
  ready(2);
  ended(1, Ending::done);
  ended(2, Ending::failed);
  EXPECT_TRUE(membership_->empty());
  EXPECT_EQ(interrupts_ + abandoned_, 0);
}

// Whatever happens, a world has members that wait for it, each once and no more than may be, and a job with a survivor goes
// on.
TEST(Membership, TakesAnyOrderOfEvents) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    Trial trial;
    std::mt19937 random(seed);
    const auto draw = [&](int below) {
      return static_cast<int>(random() % static_cast<unsigned>(below));
    };
    const int most = 2 + draw(5);
    trial.begin({.start = 2,
                 .least = 1,
                 .most = most,
                 .first_cooldown = Milliseconds{draw(3) * 100},
                 .last_cooldown = Milliseconds{1000}},
                {{"a", 2}, {"b", most}});
    std::set<int> alive;
    std::set<int> out;  // of their world, or not in one yet
    std::size_t seen = 0;
    int formed = 0;
    for (int event = 0; event < 300 && trial.failure_.empty(); ++event) {
      for (; seen < trial.started_.size(); ++seen) {
        alive.insert(trial.started_[seen].worker);
        out.insert(trial.started_[seen].worker);
      }
      for (; formed < static_cast<int>(trial.formed_.size()); ++formed) {
        const auto& made = trial.formed_[static_cast<std::size_t>(formed)].generation.workers;
        EXPECT_LE(static_cast<int>(made.size()), most);
        EXPECT_EQ(std::set<int>(made.begin(), made.end()).size(), made.size());
        for (const int worker : made) EXPECT_EQ(out.erase(worker), 1U) << "seed " << seed;
      }
      if (alive.empty()) break;
      const int worker = *std::next(alive.begin(), draw(static_cast<int>(alive.size())));
      switch (draw(8)) {
        case 0:
          // One survives, or the job could not go on.
          if (trial.membership_->generation().number < 0 || alive.size() < 2) break;
          alive.erase(worker);
          out.erase(worker);
          trial.ended(worker, Ending::failed);
          break;
        case 1:
          trial.membership_->set_hosts({{"a", 1 + draw(2)}, {"b", 1 + draw(most)}}, trial.now_);
          trial.take();
          break;
        case 2:
          trial.pass(Milliseconds{draw(2000)});
          break;
        default:
          out.insert(worker);
          trial.ready(worker);
      }
    }
    // When those end who were asked to, and all others say that they are ready, there is a world.
    if (!trial.failure_.empty()) {
      EXPECT_TRUE(contains(trial.failure_, "no rank is left")) << trial.failure_;
      continue;
    }
    for (int round = 0; round < 5; ++round) {
      for (; seen < trial.started_.size(); ++seen) alive.insert(trial.started_[seen].worker);
      for (const int worker : trial.stopped_) {
        if (alive.erase(worker) > 0) trial.ended(worker, Ending::left);
      }
      for (const int worker : alive) trial.ready(worker);
      trial.pass(Milliseconds{1500});
    }
    EXPECT_FALSE(trial.formed_.empty()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace sullae::testing
