// Rows that are made when they are updated.
#include "ps/server/table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>
#include <unordered_map>

namespace sullae::ps {
namespace {

using Ids = std::vector<std::uint64_t>;

std::vector<float> rows_of(const Table& table, const Ids& ids) {
  std::vector<float> values(ids.size() * table.dimension());
  table.look_up(ids, values.data());
  return values;
}

// Ones.
void update_all(Table& table, const Ids& ids, double rate) {
  const std::vector<float> ones(ids.size() * table.dimension(), 1);
  table.apply({.learning_rate = rate, .ids = ids, .values = ones.data()});
}

Ids range(std::uint64_t from, std::size_t count) {
  Ids ids(count);
  std::iota(ids.begin(), ids.end(), from);
  return ids;
}

TEST(Table, RowsBeginAsDrawsOfTheirNumbers) {
  const TableShape shape{.dimension = 7, .deviation = 0.5, .seed = 3};
  const Table table(shape, Rule{});
  const auto values = rows_of(table, range(0, 20000));
  EXPECT_EQ(table.rows(), 0U) << "looking rows up makes none";
  EXPECT_EQ(rows_of(table, {4}), rows_of(Table(shape, Rule{}), {4}));
  EXPECT_NE(rows_of(table, {4}), rows_of(table, {5}));
  EXPECT_NE(rows_of(table, {4}), rows_of(Table({.dimension = 7, .seed = 4}, Rule{}), {4}));
  const auto count = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  double squares = 0;
  double fourths = 0;
  for (const float value : values) {
    squares += std::pow(value, 2);
    fourths += std::pow(value, 4);
  }
  EXPECT_NEAR(mean, 0, 0.005);
  EXPECT_NEAR(std::sqrt(squares / count), 0.5, 0.005);
  EXPECT_NEAR(fourths / count / std::pow(squares / count, 2), 3, 0.05);  // as a normal one's
  EXPECT_EQ(rows_of(Table({.dimension = 2, .deviation = 0}, Rule{}), {9}),
            (std::vector<float>{0, 0}));
}

// As std::unordered_map has them, while they become more, and after.
TEST(RowNumbers, FindWhatWasInserted) {
  std::mt19937_64 random(3);
  RowNumbers numbers;
  std::unordered_map<std::uint64_t, std::uint32_t> expected;
  EXPECT_EQ(numbers.find(0), RowNumbers::kNone);
  for (int round = 0; round < 2; ++round) {
    for (std::uint32_t i = 0; i < 20000; ++i) {
      // Near each other, and anywhere.
      const std::uint64_t id = i % 2 == 0 ? i : random();
      if (!expected.emplace(id, i).second) continue;
      numbers.insert(id, i);
      numbers.prefetch(id + 1);
      EXPECT_EQ(numbers.find(id), i);
    }
    EXPECT_EQ(numbers.size(), expected.size());
    for (const auto& [id, number] : expected) EXPECT_EQ(numbers.find(id), number);
    EXPECT_EQ(numbers.find(1), RowNumbers::kNone);
    numbers.clear();
    EXPECT_EQ(numbers.find(0), RowNumbers::kNone);
    numbers.insert(7, 1);
    numbers.clear();  // of many slots
    expected.clear();
    numbers.reserve(3000);
  }
}

// More than a chunk of them, the largest number among them.
TEST(Table, UpdatesRowsAndLeavesTheOthers) {
  Table table({.dimension = 3, .deviation = 0}, Rule{});
  Ids ids = range(100, 10000);
  ids.push_back(~std::uint64_t{0});
  update_all(table, ids, 0.5);
  update_all(table, {100}, 0.5);
  EXPECT_EQ(table.rows(), ids.size());
  EXPECT_EQ(rows_of(table, {100}), std::vector<float>(3, -1));
  EXPECT_EQ(rows_of(table, {10099, ~std::uint64_t{0}}), std::vector<float>(6, -0.5));
  EXPECT_EQ(rows_of(table, {99}), std::vector<float>(3, 0));
}

// Its own, but for the steps, which are the table's.
TEST(Table, EveryRowHasTheRulesState) {
  for (const Rule& rule :
       {Rule{.momentum = 0.9}, Rule{.kind = Rule::Kind::adagrad, .initial_accumulator = 0.25},
        Rule{.kind = Rule::Kind::adam}, Rule{.kind = Rule::Kind::adamw}}) {
    Table table({.dimension = 2, .deviation = 1, .seed = 8}, rule);
    std::vector<float> values = rows_of(table, {6});
    RuleState state = initial_state(rule, 2);
    const std::vector<float> ones(2, 1);
    for (int step = 0; step < 5; ++step) {
      update_all(table, {static_cast<std::uint64_t>(step)}, 0.1);  // another row
      update_all(table, {6}, 0.1);
      state.steps = 2 * step + 1;
      update(rule, 0.1, state, values.data(), ones.data(), 2, 1);
    }
    EXPECT_EQ(table.steps(), 10);
    EXPECT_EQ(rows_of(table, {6}), values);
  }
}

TEST(Table, AveragesWhatIsAdded) {
  Table table({.dimension = 1, .deviation = 0}, Rule{});
  const std::vector<float> first{1, 2};
  const std::vector<float> second{10, 20};
  for (int round = 0; round < 2; ++round) {
    table.add({.learning_rate = 1, .ids = Ids{4, 5}, .values = first.data()});
    table.add({.learning_rate = 1, .ids = Ids{5, 6}, .values = second.data()});
    table.apply_sum(0.5);
  }
  EXPECT_EQ(rows_of(table, {4, 5, 6, 7}), (std::vector<float>{-1, -12, -20, 0}));
  table.apply_sum(0.5);  // nobody gave anything
  EXPECT_EQ(table.rows(), 3U);
}

TEST(Table, GivesAndTakesItsRowsInParts) {
  const Rule rule{.kind = Rule::Kind::adam};
  const TableShape shape{.dimension = 2, .deviation = 1, .seed = 1};
  Table table(shape, rule);
  update_all(table, range(50, 9001), 0.1);
  update_all(table, {51}, 0.1);
  Table other(shape, rule);
  update_all(other, {7, 51}, 1);
  other.clear(table.steps());
  std::size_t first = 0;
  for (Rows part = table.part(first, 1000); !part.ids.empty(); part = table.part(first, 1000)) {
    EXPECT_LE(part.ids.size(), 1000U);
    other.put(part);
    first += part.ids.size();
  }
  EXPECT_EQ(other.rows(), 9001U);
  update_all(table, {51, 60}, 0.1);
  update_all(other, {51, 60}, 0.1);
  EXPECT_EQ(rows_of(other, range(0, 10000)), rows_of(table, range(0, 10000)));
}

TEST(Table, GoesToAFileAndBack) {
  for (const std::size_t rows : {0, 1, 4096, 4097}) {
    Table table({.dimension = 3}, {.kind = Rule::Kind::adagrad});
    update_all(table, range(1, rows), 0.5);
    Table other({.dimension = 3}, {.kind = Rule::Kind::adagrad});
    other.restore(table.numbers());
    const auto from = table.arrays();
    const auto to = other.arrays();
    ASSERT_EQ(from.size(), to.size());
    for (std::size_t i = 0; i < from.size(); ++i) std::ranges::copy(from[i], to[i].begin());
    other.restored();
    EXPECT_EQ(other.rows(), rows);
    update_all(table, range(1, rows), 0.5);
    update_all(other, range(1, rows), 0.5);
    EXPECT_EQ(rows_of(other, range(0, rows + 2)), rows_of(table, range(0, rows + 2)));
  }
}

}  // namespace
}  // namespace sullae::ps
