#include <gtest/gtest.h>
#include <torch/torch.h>

#include <array>
#include <set>
#include <sstream>
#include <vector>

#include "sullae/torch.h"

namespace sullae::testing {
namespace {

std::vector<std::size_t> all_indices(std::size_t n, int size, DistributedSamplerOptions options,
                                     std::size_t epoch = 0) {
  std::vector<std::size_t> all;
  for (int rank = 0; rank < size; ++rank) {
    DistributedSampler sampler(n, rank, size, options);
    sampler.set_epoch(epoch);
    all.insert(all.end(), sampler.indices().begin(), sampler.indices().end());
  }
  return all;
}

TEST(DistributedSampler, CoversTheDataSetAndPadsTheTail) {
  for (const std::size_t n : {1U, 2U, 7U, 100U, 101U}) {
    for (int size = 1; size <= 5; ++size) {
      for (const std::size_t block : {1U, 3U, 64U}) {
        const auto all = all_indices(n, size, {.block = block});
        const std::size_t share =
            (n + static_cast<std::size_t>(size) - 1) / static_cast<std::size_t>(size);
        EXPECT_EQ(all.size(), share * static_cast<std::size_t>(size));
        EXPECT_EQ(std::set<std::size_t>(all.begin(), all.end()).size(), n)
            << n << ' ' << size << ' ' << block;
      }
    }
  }
}

TEST(DistributedSampler, DropsTheTailWhenAskedTo) {
  const auto all = all_indices(101, 4, {.drop_last = true});
  EXPECT_EQ(all.size(), 100U);
  EXPECT_EQ(std::set<std::size_t>(all.begin(), all.end()).size(), 100U);
  EXPECT_TRUE(all_indices(3, 4, {.drop_last = true}).empty());
}

TEST(DistributedSampler, ShufflesByEpochAndSeed) {
  const auto base = all_indices(50, 2, {.seed = 1}, 0);
  EXPECT_EQ(base, all_indices(50, 2, {.seed = 1}, 0));
  EXPECT_NE(base, all_indices(50, 2, {.seed = 1}, 1));
  EXPECT_NE(base, all_indices(50, 2, {.seed = 2}, 0));
  const auto ordered = all_indices(6, 2, {.shuffle = false});
  EXPECT_EQ(ordered, (std::vector<std::size_t>{0, 2, 4, 1, 3, 5}));
}

TEST(DistributedSampler, BlocksCoverTheSameSamplesAStepAsOneProcess) {
  DistributedSampler alone(100, 0, 1, {.seed = 5, .block = 12});
  for (std::size_t step = 0; step < 100 / 12; ++step) {
    std::vector<std::size_t> together;
    for (int rank = 0; rank < 3; ++rank) {
      DistributedSampler sampler(100, rank, 3, {.seed = 5, .block = 4});
      const auto& mine = sampler.indices();
      together.insert(together.end(), mine.begin() + static_cast<long>(step * 4),
                      mine.begin() + static_cast<long>(step * 4 + 4));
    }
    const auto& one = alone.indices();
    EXPECT_EQ(together, std::vector<std::size_t>(one.begin() + static_cast<long>(step * 12),
                                                 one.begin() + static_cast<long>(step * 12 + 12)));
  }
}

TEST(DistributedSampler, ServesLibtorchsDataLoader) {
  DistributedSampler sampler(10, 1, 2, {.shuffle = false});
  std::vector<std::size_t> seen;
  while (auto batch = sampler.next(3)) seen.insert(seen.end(), batch->begin(), batch->end());
  EXPECT_EQ(seen, (std::vector<std::size_t>{1, 3, 5, 7, 9}));
  sampler.reset({});
  EXPECT_EQ(sampler.next(2)->size(), 2U);

  torch::serialize::OutputArchive out;
  sampler.save(out);
  std::stringstream stream;
  out.save_to(stream);
  torch::serialize::InputArchive in;
  in.load_from(stream);
  DistributedSampler resumed(10, 1, 2, {.shuffle = false});
  resumed.load(in);
  EXPECT_EQ(*resumed.next(1), std::vector<std::size_t>{5});
  // A loader begins with the rest, and with what is set meanwhile.
  resumed.load(in);
  DistributedSampler copy = resumed;
  copy.reset();
  EXPECT_EQ(*copy.next(1), std::vector<std::size_t>{5});
  copy = resumed;
  resumed.set_epoch(4);
  copy.reset();
  EXPECT_EQ(*copy.next(1), std::vector<std::size_t>{1});
}

// Worlds of all sizes that divide the batch, one after the other.
TEST(DistributedSampler, GoesOnBehindWhatWasTaken) {
  constexpr std::size_t kBatch = 12;
  for (const std::size_t n : {0U, 5U, 12U, 100U, 240U}) {
    for (const bool in_blocks : {false, true}) {
      std::vector<std::size_t> seen;
      std::size_t taken = 0;
      for (std::size_t world = 0; taken < n; ++world) {
        const int size = std::array{3, 1, 4, 2, 6}[world % 5];
        const std::size_t batch = kBatch / static_cast<std::size_t>(size);
        std::vector<DistributedSampler> ranks;
        for (int rank = 0; rank < size; ++rank) {
          ranks.emplace_back(n, rank, size,
                             DistributedSamplerOptions{.seed = 3, .block = in_blocks ? batch : 1});
          ranks.back().set_epoch(2, taken);
        }
        for (int step = 0; step < 2 && taken < n; ++step) {
          for (auto& sampler : ranks) {
            const auto mine = sampler.next(batch);
            ASSERT_TRUE(mine) << n << ' ' << taken << ' ' << size;
            seen.insert(seen.end(), mine->begin(), mine->end());
          }
          taken += kBatch;
        }
      }
      const std::size_t repeated = seen.size() - n;  // of the last step, to have equally many
      EXPECT_LT(repeated, 6U);
      EXPECT_EQ(std::set<std::size_t>(seen.begin(), seen.end()).size(), n);
    }
  }
  DistributedSampler sampler(10, 0, 2);
  for (const std::size_t all : {10U, 12U}) {
    sampler.set_epoch(0, all);
    EXPECT_TRUE(sampler.indices().empty());
    EXPECT_FALSE(sampler.next(1));
  }
  sampler.set_epoch(0, 9);
  EXPECT_EQ(sampler.indices().size(), 1U);
}

TEST(DistributedSampler, WhatWasTakenIsSavedAndOfThatEpochAlone) {
  DistributedSampler sampler(10, 1, 2, {.shuffle = false});
  sampler.set_epoch(0, 4);
  EXPECT_EQ(*sampler.next(1), std::vector<std::size_t>{5});
  std::stringstream stream;
  torch::serialize::OutputArchive out;
  sampler.save(out);
  out.save_to(stream);
  torch::serialize::InputArchive in;
  in.load_from(stream);
  DistributedSampler resumed(10, 1, 2, {.shuffle = false});
  resumed.load(in);
  EXPECT_EQ(*resumed.next(9), (std::vector<std::size_t>{7, 9}));
  resumed.reset();
  EXPECT_EQ(resumed.indices(), (std::vector<std::size_t>{1, 3, 5, 7, 9}));
}

struct Numbers : torch::data::datasets::Dataset<Numbers, std::size_t> {
  std::size_t get(std::size_t index) override { return index; }
  detail::OptionalSize size() const override { return 100; }
};

// Whose loader has a copy of it.
TEST(DistributedSampler, EachEpochOfALoaderHasAnOrderOfItsOwn) {
  DistributedSampler sampler(100, 1, 2);
  auto loader = torch::data::make_data_loader(Numbers(), sampler, /*options=*/10);
  const auto epoch = [&] {
    std::vector<std::size_t> seen;
    for (const auto& batch : *loader) seen.insert(seen.end(), batch.begin(), batch.end());
    return seen;
  };
  const auto expected = [](std::size_t number) {
    DistributedSampler one(100, 1, 2);
    one.set_epoch(number);
    return one.indices();
  };
  for (std::size_t number = 0; number < 3; ++number) EXPECT_EQ(epoch(), expected(number));
  for (const std::size_t number : {7, 7, 2}) {
    sampler.set_epoch(number);
    EXPECT_EQ(epoch(), expected(number));
  }
  EXPECT_EQ(epoch(), expected(3));
}

TEST(DistributedSampler, RefusesARankThatCannotBe) {
  EXPECT_THROW(DistributedSampler(10, 2, 2), InputError);
  EXPECT_THROW(DistributedSampler(10, 0, 1, {.block = 0}), InputError);
  EXPECT_TRUE(DistributedSampler(0, 0, 2).indices().empty());
}

}  // namespace
}  // namespace sullae::testing
