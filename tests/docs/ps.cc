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

}  // namespace
}  // namespace sullae::testing
