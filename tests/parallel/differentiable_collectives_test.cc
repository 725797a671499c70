// Collectives that backward() goes through.
#include "sullae/parallel/differentiable_collectives.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>

#include "support/errors.h"
#include "support/ranks.h"

namespace sullae::testing {
namespace {

torch::Tensor input_of(int rank, torch::IntArrayRef shape) {
  return torch::sin(torch::arange(torch::tensor(shape.vec()).prod().item<std::int64_t>(),
                                  torch::kFloat64) *
                        0.7 +
                    rank)
      .view(shape);
}

// The sum over ranks of what each makes of its output.
double total_loss(const torch::Tensor& output, const World& world) {
  const auto weights = input_of(world.rank() + 10, output.sizes());
  double loss = (output * weights).sum().item<double>();
  world.allreduce(&loss, &loss, 1, DataType::float64);
  return loss;
}

using Call = std::function<torch::Tensor(const torch::Tensor&, const World&)>;

// Gradients of the sum of all ranks' losses are what small changes of one rank's input say.
void check_gradient(const Call& call, const World& world, torch::IntArrayRef shape) {
  auto input = input_of(world.rank(), shape).requires_grad_();
  const auto output = call(input, world);
  (output * input_of(world.rank() + 10, output.sizes())).sum().backward();
  const double step = 1e-6;
  for (int rank = 0; rank < world.size(); ++rank) {
    for (const std::int64_t at : {std::int64_t{0}, input.numel() - 1}) {
      auto changed = input.detach().clone();
      if (world.rank() == rank) changed.view({-1})[at] += step;
      const double more = total_loss(call(changed, world), world);
      if (world.rank() == rank) changed.view({-1})[at] -= 2 * step;
      const double less = total_loss(call(changed, world), world);
      if (world.rank() == rank) {
        EXPECT_NEAR(input.grad().view({-1})[at].item<double>(), (more - less) / (2 * step), 1e-6);
      }
    }
  }
}

TEST(DifferentiableCollectives, HaveTheGradientsOfTheSumOfAllLosses) {
  for (const int size : {1, 2, 3, 4}) {
    run_ranks({.size = size}, [&](World& world) {
      check_gradient([](auto& x, auto& w) { return all_reduce_grad(x, w); }, world, {3, 5});
      for (const std::int64_t dim : {0, 1, -1}) {
        check_gradient([&](auto& x, auto& w) { return all_gather_grad(x, dim, w); }, world, {3, 5});
        // Parts that are even, and parts that are not.
        check_gradient([&](auto& x, auto& w) { return reduce_scatter_grad(x, dim, w); }, world,
                       {12, 12});
        check_gradient([&](auto& x, auto& w) { return reduce_scatter_grad(x, dim, w); }, world,
                       {7, 5});
      }
      check_gradient([](auto& x, auto& w) { return all_to_all_grad(x, 1, 2, w); }, world,
                     {2, 12, 3});
      check_gradient([](auto& x, auto& w) { return all_to_all_grad(x, 2, 0, w); }, world,
                     {2, 3, 12});
    });
  }
}

TEST(DifferentiableCollectives, ReturnWhatTheRanksHaveTogether) {
  run_ranks({.size = 3}, [](World& world) {
    const auto all = torch::arange(21, torch::kFloat64).view({3, 7});
    const auto own = scatter_to_ranks(all, 1, world);
    EXPECT_EQ(own.size(1), world.rank() == 0 ? 3 : 2);
    EXPECT_TRUE(torch::equal(gather_from_ranks(own, 1, world), all));
    EXPECT_TRUE(torch::equal(all_gather_grad(own, -1, world), all));
    EXPECT_TRUE(torch::equal(reduce_from_ranks(all, world), all * 3));
    EXPECT_TRUE(torch::equal(all_reduce_grad(all, world), all * 3));
    EXPECT_TRUE(
        torch::equal(reduce_scatter_grad(all, 0, world), all.narrow(0, world.rank(), 1) * 3));
    EXPECT_TRUE(torch::equal(copy_to_ranks(all, world), all));
    // Gathered from ranks with different numbers of rows.
    const auto rows = torch::full({world.rank(), 2}, static_cast<double>(world.rank()));
    EXPECT_EQ(all_gather_grad(rows, 0, world).size(0), 3);
  });
}

// All ranks compute the same loss of what they gathered: it is one loss, and not three.
TEST(DifferentiableCollectives, GoBetweenWhatIsAlikeAndWhatIsDivided) {
  const auto alone = [] {
    auto x = input_of(0, {4, 6}).requires_grad_();
    (x * x.sin()).sum().backward();
    return x.grad();
  }();
  for (const int size : {1, 2, 3, 4}) {
    run_ranks({.size = size}, [&](World& world) {
      auto x = input_of(0, {4, 6}).requires_grad_();
      const auto own = scatter_to_ranks(x, 1, world);
      gather_from_ranks(own * own.sin(), 1, world).sum().backward();
      EXPECT_TRUE(torch::allclose(x.grad(), alone, 1e-12, 1e-12));

      auto y = input_of(0, {4, 6}).requires_grad_();
      const auto part = copy_to_ranks(y, world).narrow(0, 0, 4).tensor_split(
          world.size(), 1)[static_cast<std::size_t>(world.rank())];
      reduce_from_ranks((part * part.sin()).sum(), world).backward();
      EXPECT_TRUE(torch::allclose(y.grad(), alone, 1e-12, 1e-12));
    });
  }
}

TEST(DifferentiableCollectives, SayWhatIsWrong) {
  run_ranks({.size = 2}, [](World& world) {
    const auto x = torch::zeros({3, 4});
    EXPECT_EQ(error_of([&] { all_gather_grad(x, 2, world); }),
              "all_gather_grad: dimension 2 of a tensor of shape [3, 4]");
    EXPECT_EQ(error_of([&] { scatter_to_ranks(torch::tensor(1.0), 0, world); }),
              "scatter_to_ranks: dimension 0 of a tensor of shape []");
    EXPECT_EQ(error_of([&] { all_to_all_grad(x, 0, 1, world); }),
              "all_to_all_grad: dimension 0 has 3, which 2 ranks do not divide");
    EXPECT_EQ(error_of([&] { all_to_all_grad(x, 1, -1, world); }),
              "all_to_all_grad: dimension 1 is both split and concatenated: expected two");
  });
}

}  // namespace
}  // namespace sullae::testing
