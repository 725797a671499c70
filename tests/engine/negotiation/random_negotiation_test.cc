// Negotiators that are asked for anything in any order: what one rank asks for early, another asks
// for late, or differently, or not at all since it has joined.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "engine/negotiation/negotiator.h"

namespace sullae::engine {
namespace {

struct Plan {
  int ranks = 2;
  std::size_t capacity = 16;
  int names = 4;
  int rounds = 100;       ///< of every name, each in an order of its own on every rank
  int most_at_once = 3;   ///< submissions of a rank in a cycle
  double mismatches = 0;  ///< the share of operations that one rank submits differently
  double new_shapes = 0;  ///< of operations that all ranks submit with another size than before
  double given_up = 0;    ///< of cycles in which rank 0 gives up the oldest operation
  bool joins = false;     ///< every now and then ranks run out of data at different times
  bool leaves = false;    ///< a rank leaves in the end, with operations in flight
};

// What one rank is to submit, and what became of it.
struct RankState {
  std::deque<Request> coming;
  std::map<std::string, int> outstanding;  // by name: the use
  std::map<std::string, int> uses;
  bool joined = false;
};

class Simulation {
 public:
  Simulation(const Plan& plan, unsigned seed) : plan_(plan), random_(seed), ranks_(size()) {
    std::vector<int> names(size());
    std::iota(names.begin(), names.end(), 0);
    for (int rank = 0; rank < plan.ranks; ++rank)
      negotiators_.emplace_back(rank, names, plan.capacity);
  }

  void run() {
    const int phases = plan_.joins ? 5 : 1;
    for (int phase = 0; phase < phases && !::testing::Test::HasFailure(); ++phase) {
      fill(plan_.rounds / phases);
      // All that is submitted ends: 100 cycles without anything to submit and without an end would
      // be a hang.
      for (int quiet = 0; quiet < 100 && !finished();) {
        const bool submitted = submit_some();
        if (plan_.joins) join_those_without_data();
        const bool ended = cycle();
        quiet = submitted || ended ? 0 : quiet + 1;
        if (::testing::Test::HasFailure()) return;
      }
      ASSERT_TRUE(finished()) << waiting();
    }
    if (plan_.leaves) leave();
  }

 private:
  std::size_t size() const { return static_cast<std::size_t>(plan_.ranks); }
  bool chance(double share) { return std::uniform_real_distribution<>(0, 1)(random_) < share; }
  int up_to(int most) { return std::uniform_int_distribution<>(0, most)(random_); }

  void fill(int rounds) {
    for (int round = 0; round < rounds; ++round) {
      std::vector<Request> requests;
      std::vector<int> odd;
      for (int n = 0; n < plan_.names; ++n) {
        const auto name = "tensor" + std::to_string(n);
        if (chance(plan_.new_shapes)) ++counts_[name];
        requests.push_back({.name = name,
                            .signature = {.operation = Operation::allreduce,
                                          .type = DataType::float32,
                                          .count = 1 + counts_[name]}});
        odd.push_back(plan_.ranks > 1 && chance(plan_.mismatches) ? up_to(plan_.ranks - 1) : -1);
        const int use = ++planned_uses_[name];
        if (odd.back() >= 0) refused_.insert({name, use});
      }
      std::vector<std::size_t> order(requests.size());
      std::iota(order.begin(), order.end(), 0);
      for (int rank = 0; rank < plan_.ranks; ++rank) {
        // A rank without data for the last rounds joins.
        if (plan_.joins && rank != 0 && round > rounds / 2 + rank) continue;
        std::ranges::shuffle(order, random_);
        for (const auto i : order) {
          Request request = requests[i];
          if (odd[i] == rank) request.signature.count += 1000;
          ranks_[static_cast<std::size_t>(rank)].coming.push_back(request);
        }
      }
    }
    for (auto& rank : ranks_) rank.joined = false;
  }

  bool submit_some() {
    bool any = false;
    for (std::size_t rank = 0; rank < size(); ++rank) {
      RankState& state = ranks_[rank];
      for (int left = up_to(plan_.most_at_once); left > 0 && !state.coming.empty(); --left) {
        const Request request = state.coming.front();
        if (state.outstanding.contains(request.name)) break;
        state.coming.pop_front();
        state.outstanding[request.name] = ++state.uses[request.name];
        negotiators_[rank].submit(std::make_unique<Submission>(Submission{.request = request}));
        any = true;
      }
    }
    if (chance(plan_.given_up)) {
      if (const auto unfinished = negotiators_[0].unfinished(); !unfinished.empty())
        negotiators_[0].give_up({unfinished.front().request->name, ""});
    }
    return any;
  }

  void join_those_without_data() {
    for (std::size_t rank = 0; rank < size(); ++rank) {
      RankState& state = ranks_[rank];
      if (state.joined || !state.coming.empty() || !state.outstanding.empty()) continue;
      state.joined = true;
      negotiators_[rank].join();
    }
  }

  // True when something ended. Every rank must decide the same.
  bool cycle() {
    std::vector<std::string> said;
    for (auto& negotiator : negotiators_) said.push_back(negotiator.announce());
    std::vector<Decision> decisions;
    for (auto& negotiator : negotiators_) decisions.push_back(negotiator.apply(said));
    bool ended = false;
    for (std::size_t rank = 0; rank < size(); ++rank) {
      Decision& decision = decisions[rank];
      EXPECT_EQ(decision.agreed.size(), decisions[0].agreed.size());
      EXPECT_EQ(decision.last_joined, decisions[0].last_joined);
      for (std::size_t i = 0; i < decision.agreed.size() && !::testing::Test::HasFailure(); ++i) {
        const Agreed& one = decision.agreed[i];
        EXPECT_EQ(*one.request, *decisions[0].agreed[i].request);
        EXPECT_TRUE(one.mine || ranks_[rank].joined) << one.request->name;
        if (one.mine) end(rank, *one.mine, *one.request);
        ended = true;
      }
      for (const Refused& one : decision.refused) {
        const auto& name = one.mine->request.name;
        EXPECT_TRUE(plan_.given_up > 0 || refused_.contains({name, ranks_[rank].outstanding[name]}))
            << name << " was refused on rank " << rank;
        ranks_[rank].outstanding.erase(name);
        ended = true;
      }
      if (decision.last_joined >= 0) ended = true;
    }
    return ended;
  }

  void end(std::size_t rank, const Submission& mine, const Request& agreed) {
    RankState& state = ranks_[rank];
    EXPECT_EQ(mine.request, agreed) << "on rank " << rank;
    ASSERT_TRUE(state.outstanding.contains(agreed.name)) << agreed.name << " ended twice";
    EXPECT_TRUE(plan_.given_up > 0 ||
                !refused_.contains({agreed.name, state.outstanding[agreed.name]}))
        << agreed.name;
    state.outstanding.erase(agreed.name);
  }

  bool finished() const {
    return std::ranges::all_of(ranks_, [this](const RankState& state) {
      return state.coming.empty() && state.outstanding.empty() && (!plan_.joins || state.joined);
    });
  }

  std::string waiting() {
    std::string text;
    for (std::size_t rank = 0; rank < size(); ++rank) {
      for (const auto& [name, use] : ranks_[rank].outstanding)
        text += "rank " + std::to_string(rank) + " waits for " + name + '\n';
    }
    return text;
  }

  void leave() {
    fill(1);
    submit_some();
    const auto leaver = static_cast<std::size_t>(up_to(plan_.ranks - 1));
    negotiators_[leaver].leave();
    std::vector<std::string> said;
    for (auto& negotiator : negotiators_) said.push_back(negotiator.announce());
    for (std::size_t rank = 0; rank < size(); ++rank) {
      Decision decision = negotiators_[rank].apply(said);
      EXPECT_EQ(decision.leaving, static_cast<int>(leaver));
      std::size_t ended = decision.refused.size() + negotiators_[rank].take_all().size();
      for (const Agreed& one : decision.agreed) ended += one.mine ? 1 : 0;
      EXPECT_EQ(ended, ranks_[rank].outstanding.size());
    }
  }

  Plan plan_;
  std::mt19937 random_;
  std::vector<Negotiator> negotiators_;
  std::vector<RankState> ranks_;
  std::map<std::string, std::size_t> counts_;
  std::map<std::string, int> planned_uses_;
  std::set<std::pair<std::string, int>> refused_;
};

void simulate(Plan plan, unsigned seeds) {
  for (const std::size_t capacity : {0U, 1U, 2U, 3U, 1024U}) {
    for (plan.ranks = 1; plan.ranks <= 5; ++plan.ranks) {
      plan.capacity = capacity;
      for (unsigned seed = 0; seed < seeds; ++seed) {
        SCOPED_TRACE("capacity " + std::to_string(capacity) + ", " + std::to_string(plan.ranks) +
                     " ranks, seed " + std::to_string(seed));
        Simulation(plan, seed).run();
        if (::testing::Test::HasFailure()) return;
      }
    }
  }
}

TEST(RandomNegotiation, EverythingEndsInAnyOrder) { simulate({.leaves = true}, 20); }
TEST(RandomNegotiation, AlsoWhereAllIsSubmittedAtOnce) {
  simulate({.names = 12, .rounds = 40, .most_at_once = 12}, 10);
}
TEST(RandomNegotiation, AlsoWithSizesThatChange) { simulate({.new_shapes = 0.2}, 20); }
TEST(RandomNegotiation, MismatchesEndOnEveryRankAndNothingElse) {
  simulate({.names = 5, .mismatches = 0.1, .new_shapes = 0.1, .leaves = true}, 20);
}
TEST(RandomNegotiation, WhatIsGivenUpEndsToo) { simulate({.names = 5, .given_up = 0.1}, 20); }
TEST(RandomNegotiation, RanksWithoutDataJoin) { simulate({.new_shapes = 0.05, .joins = true}, 20); }
// More names than the cache has places, by a few, is what evicting the least recently used is worst
// at.
TEST(RandomNegotiation, MoreNamesThanTheCacheHolds) {
  for (const int ranks : {2, 3, 5}) {
    Simulation({.ranks = ranks, .capacity = 1024, .names = 1100, .rounds = 5, .most_at_once = 200},
               static_cast<unsigned>(ranks))
        .run();
  }
}

}  // namespace
}  // namespace sullae::engine
