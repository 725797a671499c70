// What ranks with layers in parts save is what one process saves, and goes to any number of ranks.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "parallel/checkpoint/saved_net.h"
#include "parallel/tensor/writer.h"
#include "support/errors.h"

namespace sullae::testing {
namespace {

torch::OrderedDict<std::string, torch::Tensor> pieces_of(const Writer& model) {
  return model->named_parameters();
}

void run_steps(Writer& model, torch::optim::Optimizer& optimizer, int first, int last) {
  for (int step = first; step < last; ++step) {
    optimizer.zero_grad();
    model->loss(texts_of(step)).backward();
    optimizer.step();
  }
}

// Of all parameters, by name: what a rank has, and what its optimizer keeps.
std::map<std::string, torch::Tensor> all_of(const Writer& model,
                                            const torch::optim::Optimizer& optimizer) {
  std::map<std::string, torch::Tensor> all;
  for (const auto& item : model->named_parameters()) {
    all[item.key()] = item.value().detach().clone();
    for (const auto& [name, value] : state_of(optimizer, item.value()))
      all[item.key() + '.' + name] =
          value.isTensor() ? value.toTensor().clone() : torch::tensor(value.toInt());
  }
  return all;
}

void expect_equal(const std::map<std::string, torch::Tensor>& all,
                  const std::map<std::string, torch::Tensor>& expected) {
  ASSERT_EQ(all.size(), expected.size());
  for (const auto& [name, value] : expected) EXPECT_TRUE(torch::equal(all.at(name), value)) << name;
}

class TensorCheckpoint : public ::testing::Test {
 protected:
  TemporaryDirectory folder_;
  std::filesystem::path file_ = folder_.path() / "checkpoint";
  std::filesystem::path again_ = folder_.path() / "again";
};

TEST_F(TensorCheckpoint, GoesToAnyRanksAndBackEqualToTheBit) {
  constexpr int kRanks = 3;
  for (const auto& [name, make] : kMakers) {
    SCOPED_TRACE(name);
    std::vector<std::map<std::string, torch::Tensor>> saved(kRanks);
    std::vector<std::map<std::string, torch::Tensor>> trained(kRanks);
    run_ranks({.size = kRanks}, [&](World& world) {
      Writer model(world);
      const auto optimizer = make(pieces_of(model));
      run_steps(model, *optimizer, 0, 3);
      CheckpointMetadata metadata;
      if (world.rank() == 0) metadata.numbers["step"] = 3;
      save_checkpoint(file_, *model, {*optimizer, make}, world, {.metadata = metadata});
      saved[static_cast<std::size_t>(world.rank())] = all_of(model, *optimizer);
      run_steps(model, *optimizer, 3, 5);
      trained[static_cast<std::size_t>(world.rank())] = all_of(model, *optimizer);
    });
    // From three over others to three.
    auto from = file_;
    for (const int ranks : {1, 2, kRanks}) {
      SCOPED_TRACE(ranks);
      run_ranks({.size = ranks}, [&](World& world) {
        Writer model(world);
        const auto optimizer = make(pieces_of(model));
        const auto metadata = load_checkpoint(from, *model, {*optimizer, make}, world);
        EXPECT_EQ(metadata.numbers.at("step"), 3);
        save_checkpoint(again_, *model, {*optimizer, make}, world, {.metadata = metadata});
        if (ranks != kRanks) return;
        expect_equal(all_of(model, *optimizer), saved[static_cast<std::size_t>(world.rank())]);
        run_steps(model, *optimizer, 3, 5);
        expect_equal(all_of(model, *optimizer), trained[static_cast<std::size_t>(world.rank())]);
      });
      from = again_;
    }
  }
}

// Who knows nothing of ranks has the whole, and who has the whole gives it to ranks.
TEST_F(TensorCheckpoint, IsThatOfOneProcess) {
  const auto& make = kMakers.at("Adam");
  std::map<std::string, torch::Tensor> whole;
  run_ranks({.size = 3}, [&](World& world) {
    Writer model(world);
    const auto optimizer = make(pieces_of(model));
    run_steps(model, *optimizer, 0, 3);
    save_checkpoint(file_, *model, {*optimizer, make}, world);
    save_weights(again_, *model, world);
    const auto gathered = gather_parameters(*model, world);
    if (world.rank() == 0) whole = gathered;
  });
  run_ranks({.size = 1}, [&](World& world) {
    Writer model(world);
    const auto optimizer = make(pieces_of(model));
    load_checkpoint(file_, *model, &*optimizer);
    expect_equal(gather_parameters(*model, world), whole);
    Writer served(world);
    load_checkpoint(again_, *served);
    expect_equal(gather_parameters(*served, world), whole);
    EXPECT_LT(std::filesystem::file_size(again_), std::filesystem::file_size(file_) * 2 / 3);
    run_steps(model, *optimizer, 3, 4);
    save_checkpoint(file_, *model, &*optimizer);
    whole = gather_parameters(*model, world);
  });
  run_ranks({.size = 2}, [&](World& world) {
    Writer model(world);
    const auto optimizer = make(pieces_of(model));
    load_checkpoint(file_, *model, {*optimizer, make}, world);
    expect_equal(gather_parameters(*model, world), whole);
    Writer weights(world);
    load_weights(file_, *weights, world);
    expect_equal(gather_parameters(*weights, world), whole);
  });
}

// What is updated in float32 is what is saved, and what of it is in 16 bits is its owner's
// business.
TEST_F(TensorCheckpoint, HasTheMastersOfWhatIsIn16Bits) {
  const auto& make = kMakers.at("Adam");
  const auto masters_of = [](Writer& model) {
    std::map<std::string, torch::Tensor> masters;
    for (const auto& item : model->named_parameters())
      masters[item.key()] = item.value().detach().to(torch::kFloat32).requires_grad_();
    model->to(torch::kBFloat16);
    return masters;
  };
  const auto in_order = [](Writer& model, const std::map<std::string, torch::Tensor>& masters) {
    torch::OrderedDict<std::string, torch::Tensor> pieces;
    for (const auto& item : model->named_parameters())
      pieces.insert(item.key(), masters.at(item.key()));
    return pieces;
  };
  std::map<std::string, torch::Tensor> saved;
  for (const int ranks : {2, 1, 3}) {
    run_ranks({.size = ranks}, [&](World& world) {
      Writer model(world);
      const auto masters = masters_of(model);
      const auto optimizer = make(in_order(model, masters));
      if (ranks != 2) {
        load_checkpoint(file_, *model, {*optimizer, make, masters}, world);
      } else {
        for (const auto& [name, master] : masters) {
          const torch::NoGradGuard guard;
          torch::Tensor(master).mul_(1.0001);  // nothing that 16 bits would tell apart
          torch::Tensor(master).mutable_grad() = torch::ones_like(master);
        }
        optimizer->step();
      }
      Writer sound(world);
      sound->to(torch::kFloat32);
      {
        const torch::NoGradGuard guard;
        for (const auto& item : sound->named_parameters())
          torch::Tensor(item.value()).copy_(masters.at(item.key()));
      }
      const auto whole = gather_parameters(*sound, world);
      save_checkpoint(file_, *model, {*optimizer, make, masters}, world);
      if (ranks != 2) return expect_equal(whole, saved);
      if (world.rank() == 0) saved = whole;
    });
  }
}

// As an embedding that is the last layer, too.
TEST_F(TensorCheckpoint, HasOnceWhatHasTwoNames) {
  struct TwiceImpl : torch::nn::Module {
    explicit TwiceImpl(const World& world)
        : layer(ColumnParallelLinearOptions{.in_features = 3, .out_features = 5}, world) {
      register_module("one", layer);
      register_module("two", layer);
    }
    ColumnParallelLinear layer;
  };
  run_ranks({.size = 2}, [&](World& world) {
    TwiceImpl model(world);
    const torch::NoGradGuard guard;
    model.layer->weight.fill_(7);
    save_weights(file_, model, world);
    model.layer->weight.fill_(1);
    load_weights(file_, model, world);
    EXPECT_EQ(model.layer->weight.min().item<float>(), 7);
    // So is its gradient: 15 numbers of 2 on both ranks together.
    model.layer->weight.mutable_grad() = torch::full_like(model.layer->weight, 2.0F);
    EXPECT_NEAR(clip_grad_norm(model, 1, world), 2 * std::sqrt(15.0), 1e-6);
    EXPECT_NEAR(model.layer->weight.grad()[0][0].item<float>(), 1 / std::sqrt(15.0), 1e-6);
    if (world.rank() != 0) return;
    TwiceImpl whole(World::create({}));
    load_checkpoint(file_, whole);
    EXPECT_TRUE(torch::equal(whole.layer->weight, torch::full({5, 3}, 7.0F)));
  });
}

TEST_F(TensorCheckpoint, MistakesAreToldOnEveryRank) {
  const auto& make = kMakers.at("SGD");
  run_ranks({.size = 2}, [&](World& world) {
    Writer model(world);
    const auto optimizer = make(pieces_of(model));
    save_weights(file_, *model, world);
    EXPECT_TRUE(contains(error_of([&] {
                           load_checkpoint(file_, *model, {*optimizer, make}, world);
                         }),
                         "has no optimizer state"));
    ColumnParallelLinear other(ColumnParallelLinearOptions{.in_features = kSize, .out_features = 4},
                               world);
    EXPECT_TRUE(contains(error_of([&] { load_weights(file_, *other, world); }), "weight"));
    EXPECT_TRUE(contains(
        error_of([&] { save_weights(folder_.path() / "none" / "file", *model, world); }), "none"));
    const torch::NoGradGuard guard;
    // On one, for which the other would wait.
    if (world.rank() == 1) model->up->weight.set_data(model->up->weight.t().contiguous().t());
    EXPECT_TRUE(contains(error_of([&] { save_weights(file_, *model, world); }),
                         "parameter 'up.weight' is a view with gaps"));
  });
}

}  // namespace
}  // namespace sullae::testing
