// Linear layers of a few rows.
#include "train/models/few_rows.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace sullae::testing {
namespace {

using train::linear_of_few;

TEST(FewRows, AreAsLibtorchsOnes) {
  torch::manual_seed(5);
  for (const bool gradients : {false, true}) {
    const torch::AutoGradMode mode(gradients);
    for (const std::int64_t rows : {0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17}) {
      for (const auto& [in, out] : {std::pair{1, 1}, {15, 3}, {16, 7}, {37, 1}, {300, 501}}) {
        const auto x = torch::randn({rows, in});
        const auto weight = torch::randn({out, in});
        const auto bias = torch::randn({out});
        EXPECT_TRUE(torch::allclose(linear_of_few(x, weight, bias), torch::linear(x, weight, bias),
                                    1e-4, 1e-4));
        EXPECT_TRUE(
            torch::allclose(linear_of_few(x, weight), torch::linear(x, weight), 1e-4, 1e-4));
      }
    }
  }
}

// Those that are laid out otherwise, and of other types.
TEST(FewRows, MayLieInMemoryAnyhow) {
  const torch::NoGradGuard guard;
  const auto x = torch::randn({40, 2}).t();
  const auto weight = torch::randn({40, 20}).t();
  EXPECT_TRUE(torch::allclose(linear_of_few(x, weight), torch::linear(x, weight), 1e-4, 1e-4));
  const auto wide = linear_of_few(x.to(torch::kFloat64), weight.to(torch::kFloat64));
  EXPECT_EQ(wide.scalar_type(), torch::kFloat64);
}

}  // namespace
}  // namespace sullae::testing
