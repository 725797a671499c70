// What docs/parameter-servers.md shows, compiled and run.
#include "sullae/ps.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "support/parameter_servers.h"
#include "support/variable.h"

namespace sullae::testing {
namespace {

TEST(ParameterServersPage, TrainsAProgram) {
  const RunningServers servers(2, {});
  const Variable endpoints("SULLAE_PS_SERVERS",
                           (servers.endpoints()[0] + "," + servers.endpoints()[1]).c_str());
  const torch::nn::Linear model(3, 1);
  const auto before = model->weight.detach().clone();
  // clang-format off
  sullae::ps::ParameterServerOptimizer optimizer(model->named_parameters(), torch::optim::AdamOptions(1e-3));
  const auto loss = torch::nn::functional::linear(torch::ones({2, 3}), model->weight, model->bias).sum();
  optimizer.zero_grad();
  loss.backward();
  optimizer.step();   // sends gradients, waits as far as the bound says, and has the new values
  // clang-format on
  EXPECT_FALSE(torch::equal(model->weight, before));
}

torch::Tensor loss_of(torch::nn::Linear& net, const torch::Tensor& rows) {
  return net(rows).square().mean();
}

TEST(ParameterServersPage, TrainsATable) {
  const RunningServers servers(2, {});
  const Variable endpoints("SULLAE_PS_SERVERS",
                           (servers.endpoints()[0] + "," + servers.endpoints()[1]).c_str());
  torch::nn::Linear net(64, 1);
  const auto ids = torch::tensor({{3, 1000000007}, {5, 3}});
  // clang-format off
  sullae::ps::Embedding words(sullae::ps::EmbeddingOptions{.dimension = 64, .rule = torch::optim::AdagradOptions(0.1)});
  const auto before = words(ids).detach();
  words->zero_grad();
  loss_of(net, words(ids)).backward();   // ids: int64 of any shape; rows: float32, with 64 behind it
  words->step();                         // sends the gradients of the rows that were looked up
  // clang-format on
  EXPECT_EQ(before.sizes(), (torch::IntArrayRef{2, 2, 64}));
  EXPECT_FALSE(torch::equal(words(ids), before));
}

}  // namespace
}  // namespace sullae::testing
