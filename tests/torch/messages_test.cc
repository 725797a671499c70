#include <gtest/gtest.h>
#include <torch/torch.h>

#include "sullae/torch.h"
#include "support/errors.h"
#include "support/ranks.h"

namespace sullae::testing {
namespace {

TEST(TensorMessages, ArriveWhateverTheirStridesAndType) {
  run_ranks({.size = 2}, [](World& world) {
    for (const auto type : {torch::kFloat, torch::kDouble, torch::kLong, torch::kBool}) {
      const auto whole = torch::arange(12).reshape({3, 4}).to(type);
      const auto turned = whole.t();
      if (world.rank() == 0) {
        send(whole, 1, 1, world);
        send(turned, 1, 2, world);
        continue;
      }
      auto plain = torch::zeros({3, 4}, type);
      EXPECT_EQ(receive(plain, 0, 1, world), 0);
      EXPECT_TRUE(plain.equal(whole));
      auto other = torch::zeros({3, 4}, type).t();
      EXPECT_EQ(receive(other, kAnySource, 2, world), 0);
      EXPECT_TRUE(other.equal(turned));
    }
  });
}

TEST(TensorMessages, InTheBackgroundKeepTheirTensors) {
  run_ranks({.size = 2}, [](World& world) {
    const int other = 1 - world.rank();
    auto received = torch::zeros(30000);
    const Handle receiving = receive_async(received, other, 0, world);
    const Handle sending = send_async(torch::full(30000, world.rank() + 1.0F), other, 0, world);
    receiving.wait();
    sending.wait();
    EXPECT_EQ(receiving.source(), other);
    EXPECT_TRUE(received.equal(torch::full(30000, other + 1.0F)));
  });
}

TEST(TensorMessages, OfParametersNeedNoGuard) {
  run_ranks({.size = 2}, [](World& world) {
    auto weight = torch::full({3}, world.rank() + 1.0F, torch::requires_grad());
    if (world.rank() == 0) {
      send(weight, 1, 0, world);
    } else {
      receive(weight, 0, 0, world);
      EXPECT_TRUE(weight.equal(torch::ones(3)));
      EXPECT_TRUE(weight.requires_grad());
    }
  });
}

TEST(TensorMessages, RefuseTensorsThatCannotBe) {
  const World world = World::create({});
  torch::Tensor none;
  auto sparse = torch::eye(2).to_sparse();
  auto expanded = torch::zeros({1}).expand({3});
  auto turned = torch::zeros({2, 3}).t();
  EXPECT_EQ(error_of([&] { send(none, 0, 0, world); }), "send: the tensor is undefined");
  EXPECT_EQ(error_of([&] { receive(sparse, 0, 0, world); }),
            "receive: the tensor is sparse: expected a dense one");
  EXPECT_TRUE(contains(error_of([&] { receive(expanded, 0, 0, world); }), "is expanded"));
  EXPECT_EQ(
      error_of([&] { send_async(turned, 0, 0, world); }),
      "send_async: tensor 'without a name' [3, 2]: expected a contiguous dense one in host memory");
  EXPECT_EQ(
      error_of([&] { receive_async(turned, 0, 0, world); }),
      "receive_async: tensor 'without a name' [3, 2]: expected a contiguous dense one in host "
      "memory");
}

}  // namespace
}  // namespace sullae::testing
