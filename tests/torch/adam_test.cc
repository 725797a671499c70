// Adam and AdamW are libtorch's, on every device, and of sparse gradients.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "sullae/torch/optimizers.h"
#include "support/errors.h"

namespace sullae::testing {
namespace {

struct OfAdam {
  using Ours = Adam;
  using Theirs = torch::optim::Adam;
  using Options = torch::optim::AdamOptions;
};
struct OfAdamW {
  using Ours = AdamW;
  using Theirs = torch::optim::AdamW;
  using Options = torch::optim::AdamWOptions;
};

template <class Kind>
class AdamLike : public ::testing::Test {
 protected:
  using Options = typename Kind::Options;
  using Ours = typename Kind::Ours;

  // The largest difference after some steps on `starts`, of which the last gets its first gradient
  // late.
  static double difference(const std::vector<torch::Tensor>& starts, bool amsgrad) {
    const auto options = Options(0.05).weight_decay(0.1).amsgrad(amsgrad);
    std::vector<torch::Tensor> a;
    std::vector<torch::Tensor> b;
    for (const torch::Tensor& start : starts) {
      a.push_back(start.detach().requires_grad_());
      b.push_back(start.detach().contiguous().clone().requires_grad_());
    }
    Ours ours(a, options);
    typename Kind::Theirs theirs(b, options);
    for (int step = 0; step < 30; ++step) {
      for (const auto* all : {&a, &b}) {
        for (std::size_t i = 0; i < all->size(); ++i) {
          const torch::Tensor& x = (*all)[i];
          x.mutable_grad() = torch::Tensor();
          const bool waits = i > 0 && i + 1 == all->size() && step < 3;
          if (!waits) (x.pow(4) * (1 + step % 3)).sum().backward();
        }
      }
      ours.step();
      theirs.step();
    }
    double most = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (a[i].numel() > 0)
        most = std::max(most, (a[i] - b[i]).abs().max().template item<double>());
    }
    return most;
  }
};
using Kinds = ::testing::Types<OfAdam, OfAdamW>;
TYPED_TEST_SUITE(AdamLike, Kinds);

TYPED_TEST(AdamLike, UpdatesAsLibtorchsDoes) {
  const auto start = torch::linspace(-1, 1, 120, torch::kFloat64).reshape({2, 3, 4, 5});
  for (const bool amsgrad : {false, true}) {
    EXPECT_LT(this->difference({start, start[0][0].clone(), torch::full({}, 0.3, torch::kFloat64)},
                               amsgrad),
              1e-12);
    // Those that are not updated in one pass: laid out otherwise.
    for (const auto& layout :
         {start.contiguous(torch::MemoryFormat::ChannelsLast), start.clone().transpose(0, 3),
          start.clone().slice(3, 0, 5, 2) /* with gaps */}) {
      EXPECT_LT(this->difference({layout}, amsgrad), 1e-12);
    }
  }
}

TYPED_TEST(AdamLike, UpdatesAsLibtorchsDoesOnAGpu) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "NO GPU, OR A LIBTORCH WITHOUT CUDA";
  const auto start = torch::linspace(-1, 1, 120, torch::kFloat64).reshape({2, 3, 4, 5}).cuda();
  for (const bool amsgrad : {false, true}) {
    EXPECT_LT(this->difference(
                  {start, start.contiguous(torch::MemoryFormat::ChannelsLast),
                   start.clone().transpose(0, 3), start.clone().slice(3, 0, 5, 2),
                   torch::zeros({0}, start.options()), start.flatten().narrow(0, 0, 7).clone()},
                  amsgrad),
              1e-12);
    // The last, of another type, is some steps behind, and the one before it of its own.
    EXPECT_LT(this->difference({start.to(torch::kFloat32), start.clone()}, amsgrad), 1e-4);
    EXPECT_LT(this->difference({start.clone(), start.to(torch::kFloat32)}, amsgrad), 1e-4);
  }
}

TYPED_TEST(AdamLike, UpdatesOtherTypes) {
  for (const bool amsgrad : {false, true}) {
    auto half = torch::full({7}, 0.5, torch::kBFloat16).requires_grad_();
    typename TypeParam::Ours ours({half}, typename TypeParam::Options(0.05).amsgrad(amsgrad));
    half.sum().backward();
    ours.step();
    EXPECT_NEAR(half[3].template item<double>(), 0.45, 0.005);
  }
}

TYPED_TEST(AdamLike, LeavesUntouchedRowsAlone) {
  for (const auto type : {torch::kFloat32, torch::kBFloat16}) {
    torch::nn::Embedding embedding(torch::nn::EmbeddingOptions(10, 4).sparse(true));
    embedding->to(type);
    typename TypeParam::Ours adam(
        embedding->parameters(),
        typename TypeParam::Options(0.1).amsgrad(type == torch::kBFloat16).weight_decay(0));
    const auto before = embedding->weight.detach().clone();
    embedding->forward(torch::tensor({3, 7, 3}, torch::kInt64)).sum().backward();
    adam.step();
    const auto changed = (embedding->weight.detach() - before).to(torch::kFloat32);
    for (int row = 0; row < 10; ++row) {
      EXPECT_NEAR(changed[row][1].template item<float>(), row == 3 || row == 7 ? -0.1F : 0.0F, 0.02)
          << row;
      EXPECT_EQ(changed[row].abs().sum().template item<float>() != 0, row == 3 || row == 7) << row;
    }
  }
}

TYPED_TEST(AdamLike, RefusesWeightDecayOfSparseGradients) {
  torch::nn::Embedding embedding(torch::nn::EmbeddingOptions(10, 4).sparse(true));
  typename TypeParam::Ours adam(embedding->parameters(),
                                typename TypeParam::Options(0.1).weight_decay(0.1));
  embedding->forward(torch::tensor({1}, torch::kInt64)).sum().backward();
  EXPECT_TRUE(contains(error_of<InputError>([&] { adam.step(); }),
                       "a sparse gradient must be sparse in dimension 0 alone, and excludes "
                       "weight_decay"));
}

}  // namespace
}  // namespace sullae::testing
