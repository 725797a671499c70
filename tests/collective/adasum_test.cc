// Adasum over every transport and world size against whole vectors combined here.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <numeric>

#include "collective/adasum/kernels.h"
#include "sullae/communicator.h"
#include "support/errors.h"
#include "support/ranks.h"
#include "support/values.h"

namespace sullae::testing {
namespace {

using Vector = std::vector<double>;

Vector combined(const Vector& a, const Vector& b) {
  const double ab = std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
  const double aa = std::inner_product(a.begin(), a.end(), a.begin(), 0.0);
  const double bb = std::inner_product(b.begin(), b.end(), b.begin(), 0.0);
  Vector out(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    out[i] = (aa == 0 ? 1 : 1 - ab / (2 * aa)) * a[i] + (bb == 0 ? 1 : 1 - ab / (2 * bb)) * b[i];
  }
  return out;
}

// A tree over the ranks; of 2^k + r, the first r pairs come first.
Vector combined(std::vector<Vector> vectors) {
  std::size_t core = 1;
  while (core * 2 <= vectors.size()) core *= 2;
  const std::size_t extra = vectors.size() - core;
  std::vector<Vector> level;
  for (std::size_t i = 0; i < extra; ++i)
    level.push_back(combined(vectors[2 * i], vectors[2 * i + 1]));
  for (std::size_t i = 2 * extra; i < vectors.size(); ++i) level.push_back(vectors[i]);
  while (level.size() > 1) {
    std::vector<Vector> next;
    for (std::size_t i = 0; i < level.size(); i += 2)
      next.push_back(combined(level[i], level[i + 1]));
    level = next;
  }
  return level[0];
}

double gradient(int rank, std::size_t index) {
  return std::sin(0.37 * static_cast<double>(index + 1) * (rank + 1)) + 0.5;
}

Vector vector_of(int rank, std::size_t begin, std::size_t count, DataType type) {
  std::vector<std::byte> stored(count * element_size(type));
  Vector values;
  for (std::size_t i = 0; i < count; ++i) {
    store(stored, i, gradient(rank, begin + i), type);
    values.push_back(load(stored, i, type));
  }
  return values;
}

double tolerance(DataType type) {
  switch (type) {
    case DataType::float64:
      return 1e-12;
    case DataType::float32:
      return 1e-5;
    case DataType::float16:
      return 1e-2;
    default:
      return 8e-2;
  }
}

class Adasum : public ::testing::TestWithParam<Setting> {};
INSTANTIATE_TEST_SUITE_P(Everywhere, Adasum, ::testing::ValuesIn(every_setting()),
                         [](const auto& setting) { return setting.param.name; });

TEST_P(Adasum, GivesWhatWholeVectorsGive) {
  run_ranks(GetParam().ranks, [](World& world) {
    for (const DataType type :
         {DataType::float32, DataType::float64, DataType::float16, DataType::bfloat16}) {
      for (const std::size_t count : {0, 1, 7, 4099, 30011}) {
        std::vector<std::byte> values(count * element_size(type));
        for (std::size_t i = 0; i < count; ++i) store(values, i, gradient(world.rank(), i), type);
        world.allreduce(values.data(), values.data(), count, type, ReduceOp::adasum);
        std::vector<Vector> all;
        for (int rank = 0; rank < world.size(); ++rank)
          all.push_back(vector_of(rank, 0, count, type));
        const Vector expected_values = combined(all);
        for (std::size_t i = 0; i < count; ++i) {
          ASSERT_NEAR(load(values, i, type), expected_values[i], tolerance(type))
              << name(type) << " element " << i << " of " << count;
        }
      }
    }
  });
}

// Together or alone, named or not: every tensor is combined by itself.
TEST_P(Adasum, CombinesEachTensorOfAFusionByItself) {
  run_ranks(GetParam().ranks, [](World& world) {
    const std::vector<std::size_t> counts = {3, 1, 0, 50, 997};
    std::vector<std::vector<float>> tensors;
    std::vector<TensorBuffers> group;
    std::size_t begin = 0;
    for (const std::size_t count : counts) {
      auto& tensor = tensors.emplace_back(count);
      for (std::size_t i = 0; i < count; ++i)
        tensor[i] = static_cast<float>(gradient(world.rank(), begin + i));
      begin += count;
    }
    for (auto& tensor : tensors)
      group.push_back({.in = tensor.data(), .out = tensor.data(), .count = tensor.size()});
    world.grouped_allreduce_async(group, DataType::float32, ReduceOp::adasum, {.name = "group"})
        .wait();
    begin = 0;
    for (std::size_t t = 0; t < counts.size(); ++t) {
      std::vector<Vector> all;
      for (int rank = 0; rank < world.size(); ++rank)
        all.push_back(vector_of(rank, begin, counts[t], DataType::float32));
      const Vector expected_values = combined(all);
      for (std::size_t i = 0; i < counts[t]; ++i)
        ASSERT_NEAR(tensors[t][i], expected_values[i], 1e-5) << t << ' ' << i;
      begin += counts[t];
    }
  });
}

TEST_P(Adasum, OfEqualVectorsIsTheirAverageAndOfOrthogonalOnesTheirSum) {
  run_ranks(GetParam().ranks, [](World& world) {
    std::vector<double> same(5, 3.0);
    world.allreduce(same.data(), same.data(), same.size(), DataType::float64, ReduceOp::adasum);
    for (const double value : same) EXPECT_NEAR(value, 3.0, 1e-12);
    std::vector<double> own(static_cast<std::size_t>(world.size()), 0.0);
    own[static_cast<std::size_t>(world.rank())] = 2.0;
    world.allreduce(own.data(), own.data(), own.size(), DataType::float64, ReduceOp::adasum);
    for (const double value : own) EXPECT_NEAR(value, 2.0, 1e-12);
  });
}

class HierarchicalAdasum : public ::testing::TestWithParam<std::vector<int>> {
 protected:
  void SetUp() override { ::setenv("SULLAE_HIERARCHICAL_ADASUM", "1", 1); }
  void TearDown() override { ::unsetenv("SULLAE_HIERARCHICAL_ADASUM"); }
};
INSTANTIATE_TEST_SUITE_P(Hosts, HierarchicalAdasum,
                         ::testing::Values(std::vector{2, 2}, std::vector{1, 2},
                                           std::vector{3, 1, 1}, std::vector{2, 3}));

// Hosts are averaged, then combined as one rank each.
TEST_P(HierarchicalAdasum, CombinesTheAveragesOfHosts) {
  const auto& hosts = GetParam();
  const int size = std::accumulate(hosts.begin(), hosts.end(), 0);
  run_ranks({.size = size, .hosts = hosts}, [&](World& world) {
    for (const std::size_t count : {1, 7, 4099, 30011}) {
      std::vector<double> values(count);
      for (std::size_t i = 0; i < count; ++i) values[i] = gradient(world.rank(), i);
      world.allreduce(values.data(), values.data(), values.size(), DataType::float64,
                      ReduceOp::adasum);
      std::vector<Vector> averages;
      int rank = 0;
      for (const int ranks : hosts) {
        Vector average(count);
        for (int i = 0; i < ranks; ++i, ++rank) {
          for (std::size_t e = 0; e < count; ++e) average[e] += gradient(rank, e) / ranks;
        }
        averages.push_back(average);
      }
      const Vector expected_values = combined(averages);
      for (std::size_t i = 0; i < count; ++i)
        ASSERT_NEAR(values[i], expected_values[i], 1e-12) << i << " of " << count;
    }
  });
}

TEST(AdasumArguments, RefusesIntegersAndOtherReductions) {
  const World world = World::create({});
  std::vector<int> integers(3);
  EXPECT_EQ(error_of([&] {
              world.allreduce(integers.data(), integers.data(), 3, DataType::int32,
                              ReduceOp::adasum);
            }),
            "adasum is for floating-point values, not for int32");
  std::vector<float> values(3);
  EXPECT_EQ(error_of([&] {
              world.reduce(values.data(), values.data(), 3, DataType::float32, ReduceOp::adasum, 0);
            }),
            "adasum is a reduction for allreduce alone");
}

}  // namespace
}  // namespace sullae::testing
