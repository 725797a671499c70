// What is given to a model and an optimizer that have been used takes the place of all that they
// had; and other numbers that were wrong once without a word.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "sullae/torch.h"
#include "sullae/torch/checkpoint.h"
#include "support/ranks.h"
#include "support/temporary_directory.h"

namespace sullae::testing {
namespace {

struct TwoImpl : torch::nn::Module {
  torch::Tensor a = register_parameter("a", torch::ones({2}));
  torch::Tensor b = register_parameter("b", torch::ones({2}));
};
TORCH_MODULE(Two);

// A step for `b` with a small gradient, of which Adam makes a step of the learning rate where it
// has no moments.
torch::Tensor step_of_b(Two& model, torch::optim::Optimizer& optimizer) {
  optimizer.zero_grad();
  model->b.mutable_grad() = torch::full({2}, 0.01F);
  optimizer.step();
  return model->b.detach();
}

TEST(StaleState, OfAnOptimizerIsGoneWhereTheRootHasNone) {
  run_ranks({.size = 2}, [](World& world) {
    Two model;
    Adam optimizer(model->parameters(), torch::optim::AdamOptions(0.1));
    (world.rank() == 0 ? model->a.sum() : model->a.sum() + model->b.sum()).backward();
    optimizer.step();
    broadcast_parameters(*model, 0, world);
    broadcast_optimizer_state(optimizer, 0, world);
    EXPECT_TRUE(torch::allclose(step_of_b(model, optimizer), torch::full({2}, 0.9F)));
  });
}

TEST(StaleState, IsGoneAfterACheckpoint) {
  const TemporaryDirectory folder;
  const auto file = folder.path() / "m.ckpt";
  Two saved;
  Adam first(saved->parameters(), torch::optim::AdamOptions(0.1));
  saved->a.sum().backward();
  first.step();
  save_checkpoint(file, *saved, &first);
  Two model;
  Adam optimizer(model->parameters(), torch::optim::AdamOptions(0.1));
  (model->a.sum() + model->b.sum()).backward();
  optimizer.step();
  load_checkpoint(file, *model, &optimizer);
  EXPECT_TRUE(torch::equal(model->a, saved->a));
  EXPECT_TRUE(torch::allclose(step_of_b(model, optimizer), torch::full({2}, 0.9F)));
}

// Others, such as an optimizer of parts, have parameters as parts of their memory.
TEST(StaleState, ParametersStayWhereTheyAre) {
  const TemporaryDirectory folder;
  const auto file = folder.path() / "m.ckpt";
  Two saved;
  save_checkpoint(file, *saved);
  Two model;
  const auto flat = torch::zeros({4});
  model->a.set_data(flat.narrow(0, 0, 2));
  model->b.set_data(flat.narrow(0, 2, 2));
  load_checkpoint(file, *model);
  EXPECT_TRUE(torch::equal(flat, torch::ones({4})));
}

// Squares of large means would hide it.
TEST(SyncBatchNorm, FindsTheVarianceOfValuesFarFromZero) {
  run_ranks({.size = 2}, [](World& world) {
    // Without libtorch's generator, which threads would share.
    const auto all =
        torch::sin(torch::arange(8 * 3 * 16) * 12.9898).view({8, 3, 4, 4}) * 0.1 + 3000;
    torch::nn::BatchNorm2d whole(3);
    torch::nn::BatchNorm2d own(3);
    const auto expected = whole(all).narrow(0, 4 * world.rank(), 4);
    const auto part = sync_batch_norm(all.narrow(0, 4 * world.rank(), 4), *own, world);
    EXPECT_LT((part - expected).abs().max().item<double>(), 0.01);
    EXPECT_TRUE(torch::allclose(own->running_var, whole->running_var, 1e-3, 1e-6));
  });
}

}  // namespace
}  // namespace sullae::testing
