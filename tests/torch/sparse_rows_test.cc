#include "torch/sparse_rows.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <set>

#include "sullae/adapter.h"
#include "support/ranks.h"

namespace sullae::testing {
namespace {

constexpr std::int64_t kRows = 40;
constexpr std::int64_t kWidth = 3;

// Every `stride`-th row, from another start on each rank.
SparseRows rows_of(int rank, std::int64_t stride) {
  SparseRows rows;
  for (std::int64_t row = rank % stride; row < kRows; row += stride) rows.indices.push_back(row);
  const auto n = static_cast<std::int64_t>(rows.indices.size());
  rows.values = torch::arange(n * kWidth, torch::kFloat64).reshape({n, kWidth}) + rank;
  return rows;
}

torch::Tensor dense(const SparseRows& rows) { return rows.to_tensor({kRows, kWidth}).to_dense(); }

TEST(SparseRows, AreReducedAlikeHoweverManyThereAre) {
  for (const int size : {1, 2, 3, 5}) {
    for (const std::int64_t stride : {1, 2, 7, 1000}) {
      const auto row_bytes = static_cast<std::size_t>(kWidth) * sizeof(double);
      std::size_t gathered = 0;
      torch::Tensor want = torch::zeros({kRows, kWidth}, torch::kFloat64);
      std::set<std::int64_t> touched;
      for (int rank = 0; rank < size; ++rank) {
        const auto rows = rows_of(rank, stride);
        want += dense(rows) / size;
        touched.insert(rows.indices.begin(), rows.indices.end());
        gathered += rows.indices.size();
      }
      // Both ways are taken.
      if (stride == 1 && size == 5) {
        EXPECT_TRUE(moves_fewer_bytes_dense(gathered, kRows, row_bytes));
      }
      if (stride == 7) {
        EXPECT_FALSE(moves_fewer_bytes_dense(gathered, kRows, row_bytes));
      }
      run_ranks({.size = size}, [&](World& world) {
        AdapterView(world)
            .submit([&](Communicator& communicator) {
              const auto reduced = reduce_rows(communicator, rows_of(world.rank(), stride), true,
                                               kRows, ReduceOp::average);
              EXPECT_TRUE(reduced.used);
              EXPECT_EQ(reduced.rows.indices,
                        std::vector<std::int64_t>(touched.begin(), touched.end()));
              EXPECT_TRUE(torch::allclose(dense(reduced.rows), want, 1e-12, 1e-12));
            })
            .wait();
      });
    }
  }
}

}  // namespace
}  // namespace sullae::testing
