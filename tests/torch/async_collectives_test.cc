// Collectives on tensors in the background, whose results have shapes that only the ranks together
// know.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "sullae/torch.h"
#include "support/errors.h"
#include "support/ranks.h"

namespace sullae::testing {
namespace {

torch::Tensor rows_of_rank(int rank, std::int64_t rows) {
  return torch::arange(rows * 2, torch::kFloat32).view({rows, 2}) + 100.0 * rank;
}

TEST(AsyncCollectives, ComeInAnyOrderOnAnyRank) {
  run_ranks({.size = 3}, [](World& world) {
    auto sum = torch::full({5}, world.rank() + 1.0F);
    const auto reduce = [&] {
      return allreduce_async({sum}, {sum}, ReduceOp::sum, {.name = "sum"}, world);
    };
    const auto gather = [&] {
      return allgather_async({rows_of_rank(world.rank(), world.rank())}, {.name = "rows"}, world);
    };
    TensorHandle reduced;
    TensorHandle gathered;
    if (world.rank() == 1) {
      gathered = gather();
      reduced = reduce();
    } else {
      reduced = reduce();
      gathered = gather();
    }
    EXPECT_TRUE(
        torch::equal(gathered.wait().at(0), torch::cat({rows_of_rank(1, 1), rows_of_rank(2, 2)})));
    EXPECT_TRUE(torch::equal(reduced.wait().at(0), torch::full({5}, 6.0F)));
    EXPECT_TRUE(reduced.done());
    EXPECT_TRUE(torch::equal(sum, torch::full({5}, 6.0F)));
  });
}

TEST(AsyncCollectives, StridedTensorsAreCopiedThereAndBack) {
  run_ranks({.size = 2}, [](World& world) {
    const auto base = torch::zeros({3, 4});
    const auto column = base.t().slice(0, 1, 2);
    column.fill_(world.rank() + 1);
    auto copy = torch::empty({1, 3});
    const auto handle =
        allreduce_async({column, column}, {column, copy}, ReduceOp::average, {}, world);
    EXPECT_EQ(handle.wait().size(), 2U);
    EXPECT_TRUE(torch::equal(base.slice(1, 1, 2), torch::full({3, 1}, 1.5F)));
    EXPECT_TRUE(torch::equal(copy, torch::full({1, 3}, 1.5F)));
    EXPECT_EQ(base[0][0].item<float>(), 0.0F);
    auto other = torch::full({2}, world.rank());
    broadcast_async(torch::full({2}, world.rank()), other, 1, {}, world).wait();
    EXPECT_TRUE(torch::equal(other, torch::ones({2}, other.options())));
  });
}

// In place, and each rank's in an order of its own.
TEST(AsyncCollectives, TensorsMayBeInAnyOrderInMemory) {
  run_ranks({.size = 2}, [](World& world) {
    for (const auto type : {torch::kFloat32, torch::kFloat64, torch::kInt64}) {
      const auto square = torch::arange(6, type).view({2, 3}).t();
      const auto image = torch::arange(24, type).view({1, 2, 3, 4});
      for (const auto& tensor : {square, image.contiguous(torch::MemoryFormat::ChannelsLast)}) {
        auto sum = tensor.clone();
        allreduce_async({sum}, {sum}, ReduceOp::sum, {}, world).wait();
        EXPECT_TRUE(torch::equal(sum, tensor * 2)) << type;
        auto own = world.rank() == 0 ? tensor.clone() : torch::zeros(tensor.sizes(), type);
        broadcast_async(own, own, 0, {}, world).wait();
        EXPECT_TRUE(torch::equal(own, tensor)) << type;
      }
    }
  });
}

TEST(AsyncCollectives, RowsThatDoNotDivideEvenlyGoToTheFirstRanks) {
  run_ranks({.size = 3}, [](World& world) {
    const auto tensor = rows_of_rank(0, 7) * (world.rank() + 1);
    const std::int64_t first[] = {0, 3, 5, 7};
    const auto r = static_cast<std::size_t>(world.rank());
    const auto whole = rows_of_rank(0, 7) * 6;
    const auto parts =
        reducescatter_async({tensor, torch::ones({2}, torch::kFloat32)}, ReduceOp::sum,
                            {.prescale = 0.5, .postscale = 4.0}, world)
            .wait();
    EXPECT_TRUE(torch::equal(parts[0], whole.slice(0, first[r], first[r + 1]) * 2));
    EXPECT_EQ(parts[1].numel(), world.rank() < 2 ? 1 : 0);
  });
}

TEST(AsyncCollectives, AlltoallSendsAsManyRowsAsEachRankSays) {
  run_ranks({.size = 3}, [](World& world) {
    const auto tensor = rows_of_rank(world.rank(), 4);
    const std::vector<std::int64_t> splits = {world.rank(), 1, 0};
    const auto results = alltoall_async(tensor, splits, {}, world).wait();
    const std::vector<std::vector<std::int64_t>> expected = {{0, 1, 2}, {1, 1, 1}, {0, 0, 0}};
    EXPECT_TRUE(
        torch::equal(results[1], torch::tensor(expected[static_cast<std::size_t>(world.rank())])));
    EXPECT_EQ(results[0].size(0), results[1].sum().item<std::int64_t>());
    if (world.rank() == 1) {
      EXPECT_TRUE(torch::equal(results[0][2], rows_of_rank(2, 4)[2]));
    }
    EXPECT_THROW(alltoall_async(tensor, std::vector<std::int64_t>{1, 1}, {}, world), InputError);
    EXPECT_THROW(alltoall_async(tensor, std::vector<std::int64_t>{2, 2, 2}, {}, world), InputError);
    EXPECT_THROW(alltoall_async(tensor, std::vector<std::int64_t>{-1, 2, 2}, {}, world),
                 InputError);
    EXPECT_THROW(alltoall_async(tensor, {}, {}, world), InputError);
  });
}

// Whose shapes do not fit is told, and the world goes on.
TEST(AsyncCollectives, WhatDoesNotFitIsAMismatchOnEveryRank) {
  run_ranks({.size = 2}, [](World& world) {
    const auto tensor = torch::ones({2, 2 + world.rank()});
    const auto error = error_of([&] { allgather_async({tensor}, {.name = "rows"}, world).wait(); });
    EXPECT_TRUE(contains(error,
                         "rank 0 submitted allgather of float32 rows of [2], but rank 1 submitted "
                         "allgather of float32 rows of [3]"))
        << error;
    EXPECT_EQ(allgather_async({torch::ones({})}, {}, world).wait()[0].size(0), 2);
  });
}

TEST(AsyncCollectives, WhoHasJoinedCannotGather) {
  run_ranks({.size = 2}, [](World& world) {
    if (world.rank() == 0) {
      const auto error =
          error_of([&] { allgather_async({torch::ones({2})}, {.name = "rows"}, world).wait(); });
      EXPECT_TRUE(contains(error, "ranks 1 have joined")) << error;
      auto tensor = torch::ones({2});
      const auto told =
          error_of([&] { broadcast_async(tensor, tensor, 0, {.name = "told"}, world).wait(); });
      EXPECT_TRUE(contains(told, "ranks 1 have joined")) << told;
    }
    world.join();
  });
}

TEST(AsyncCollectives, MistakesAreToldWhereTheyAreMade) {
  const World world = World::create({});
  const auto tensor = torch::ones({2});
  const auto refused = [&](const std::string& why, const std::function<void()>& call) {
    const auto error = error_of(call);
    EXPECT_TRUE(contains(error, why)) << error;
  };
  refused("a result of [3] Float for a tensor of [2] Float",
          [&] { allreduce_async({tensor}, {torch::ones({3})}, ReduceOp::sum, {}, world); });
  refused("2 results for 1 tensors", [&] {
    allreduce_async({tensor}, {tensor, tensor}, ReduceOp::sum, {}, world);
  });
  refused("tensors of types Float and Int in one group", [&] {
    allgather_async({tensor, torch::ones({1}, torch::kInt32)}, {}, world);
  });
  refused("a group of no tensors", [&] { allgather_async({}, {}, world); });
  refused("a number has no rows",
          [&] { reducescatter_async({torch::ones({})}, ReduceOp::sum, {}, world); });
  refused("the tensor is sparse", [&] { allgather_async({tensor.to_sparse()}, {}, world); });
}

TEST(AsyncCollectives, AWaitMayHaveALimit) {
  run_ranks({.size = 2}, [](World& world) {
    auto tensor = torch::ones({2});
    if (world.rank() == 0) {
      const auto handle =
          allreduce_async({tensor}, {tensor}, ReduceOp::sum, {.name = "late"}, world);
      EXPECT_FALSE(handle.wait_for(std::chrono::milliseconds(20)));
      world.barrier();
      EXPECT_TRUE(handle.wait_for(std::chrono::minutes(1)));
    } else {
      world.barrier();
      allreduce_async({tensor}, {tensor}, ReduceOp::sum, {.name = "late"}, world).wait();
    }
    EXPECT_EQ(tensor[0].item<float>(), 2.0F);
  });
}

}  // namespace
}  // namespace sullae::testing
