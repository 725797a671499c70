// Layers in parts, of which each is updated in pieces by the ranks that have it: what one process
// trains, and saves.
#include <gtest/gtest.h>

#include "parallel/checkpoint/saved_net.h"
#include "parallel/tensor/writer.h"
#include "sullae/parallel/mesh.h"
#include "support/errors.h"

namespace sullae::testing {
namespace {

using Weights = std::map<std::string, torch::Tensor>;
constexpr double kClip = 0.05;

// A rank of a mesh, with other ranks' samples.
struct Job {
  Job(const World& all, const std::vector<Mesh::Dimension>& dimensions, int stage,
      const ShardedOptimizer::Maker& make)
      : world(all),
        mesh(all, dimensions),
        model(mesh["tp"]),
        // Several buckets, of which some are of one parameter.
        optimizer(model->named_parameters(), make,
                  {.stage = stage, .bucket_bytes = 2000, .own_buckets = {"norm.weight"}},
                  mesh["dp"]) {}

  void run_steps(int first, int last) {
    const World& data = mesh["dp"];
    const std::int64_t own = kTexts / data.size();
    for (int step = first; step < last; ++step) {
      optimizer.zero_grad();
      model->loss(texts_of(step).narrow(0, data.rank() * own, own)).backward();
      norm = clip_grad_norm(*model, optimizer, kClip, world);
      optimizer.step();
    }
  }
  Weights weights() const { return gather_parameters(*model, mesh["tp"]); }

  World world;
  Mesh mesh;
  Writer model;
  ShardedOptimizer optimizer;
  double norm = 0;
};

// An optimizer of a module that has the model as a part has other names for its parameters.
TEST(ShardedInParts, AreClippedWhateverTheirNames) {
  run_ranks({.size = 2}, [](World& world) {
    const Mesh mesh(world, {{"dp", 1}, {"tp", 2}});
    std::vector<double> norms;
    for (const std::string prefix : {"", "net."}) {
      Writer model(mesh["tp"]);
      torch::OrderedDict<std::string, torch::Tensor> parameters;
      for (const auto& item : model->named_parameters())
        parameters.insert(prefix + item.key(), item.value());
      ShardedOptimizer optimizer(
          parameters,
          [](const auto& pieces) {
            return std::make_unique<torch::optim::SGD>(pieces.values(), 0.1);
          },
          {.stage = 1}, mesh["dp"]);
      optimizer.zero_grad();
      model->loss(texts_of(0)).backward();
      norms.push_back(clip_grad_norm(*model, optimizer, kClip, world));
    }
    EXPECT_EQ(norms[0], norms[1]);
  });
}

const std::vector<std::vector<Mesh::Dimension>> kMeshes = {
    {{"dp", 2}, {"tp", 2}}, {{"tp", 3}, {"dp", 2}}, {{"dp", 3}, {"tp", 1}}, {{"dp", 1}, {"tp", 2}}};

int size_of(const std::vector<Mesh::Dimension>& dimensions) {
  int size = 1;
  for (const auto& [name, ranks] : dimensions) size *= ranks;
  return size;
}

void expect_near(const Weights& weights, const Weights& expected, double most = 1e-10) {
  ASSERT_EQ(weights.size(), expected.size());
  for (const auto& [name, value] : expected)
    EXPECT_LE((weights.at(name) - value).abs().max().item<double>(), most) << name;
}

// Its weights after so many steps, the norm of its last gradients, and a checkpoint.
std::pair<Weights, double> alone(int steps, const std::filesystem::path& file,
                                 const ShardedOptimizer::Maker& make) {
  std::pair<Weights, double> result;
  run_ranks({.size = 1}, [&](World& world) {
    Writer model(world);
    const auto optimizer = make(model->named_parameters());
    if (std::filesystem::exists(file)) load_checkpoint(file, *model, &*optimizer);
    for (int step = 0; step < steps; ++step) {
      optimizer->zero_grad();
      model->loss(texts_of(step)).backward();
      result.second = clip_grad_norm(*model, kClip, world);
      optimizer->step();
    }
    save_checkpoint(file, *model, &*optimizer);
    result.first = gather_parameters(*model, world);
  });
  return result;
}

class ShardedParts : public ::testing::Test {
 protected:
  TemporaryDirectory folder_;
  std::filesystem::path file_ = folder_.path() / "checkpoint";
  std::filesystem::path again_ = folder_.path() / "again";
};

TEST_F(ShardedParts, TrainWhatOneProcessTrains) {
  for (const auto& [name, make] : kMakers) {
    SCOPED_TRACE(name);
    const auto [expected, norm] = alone(10, folder_.path() / name, make);
    for (const auto& dimensions : kMeshes) {
      for (const int stage : {1, 2}) {
        run_ranks({.size = size_of(dimensions)}, [&](World& world) {
          Job job(world, dimensions, stage, make);
          job.run_steps(0, 10);
          expect_near(job.weights(), expected);
          EXPECT_NEAR(job.norm, norm, 1e-10);
        });
      }
    }
  }
}

TEST_F(ShardedParts, GoToOneProcessAndBackEqualToTheBit) {
  for (const auto& [name, make] : kMakers) {
    SCOPED_TRACE(name);
    for (const auto& dimensions : kMeshes) {
      std::filesystem::remove(file_);
      Weights saved;
      Weights trained;
      run_ranks({.size = size_of(dimensions)}, [&](World& world) {
        Job job(world, dimensions, 2, make);
        job.run_steps(0, 3);
        CheckpointMetadata metadata;
        if (world.rank() == 0) metadata.numbers["step"] = 3;
        save_checkpoint(file_, *job.model, job.optimizer, world, {.metadata = metadata});
        save_weights(again_, *job.model, job.optimizer, world);
        const auto whole = job.weights();
        job.run_steps(3, 5);
        const auto later = job.weights();
        if (world.rank() != 0) return;
        saved = whole;
        trained = later;
      });
      run_ranks({.size = 1}, [&](World& world) {
        Writer served(world);
        load_checkpoint(again_, *served);
        expect_near(gather_parameters(*served, world), saved, 0);
      });
      expect_near(alone(0, file_, make).first, saved, 0);  // which saves it again
      run_ranks({.size = size_of(dimensions)}, [&](World& world) {
        Job job(world, dimensions, 1, make);
        load_checkpoint(file_, *job.model, job.optimizer, world);
        expect_near(job.weights(), saved, 0);
        job.run_steps(3, 5);
        expect_near(job.weights(), trained, 0);
      });
    }
  }
}

// From a mesh to another, whose ranks have other pieces of other parts.
TEST_F(ShardedParts, GoToOtherMeshes) {
  const auto& make = kMakers.at("two groups");
  Weights saved;
  for (const auto& dimensions : kMeshes) {
    run_ranks({.size = size_of(dimensions)}, [&](World& world) {
      Job job(world, dimensions, 2, make);
      if (saved.empty()) {
        job.run_steps(0, 3);
      } else {
        const auto metadata = load_checkpoint(file_, *job.model, job.optimizer, world);
        EXPECT_EQ(metadata.numbers.at("step"), 3);
        expect_near(job.weights(), saved, 0);
      }
      CheckpointMetadata metadata;
      metadata.numbers["step"] = 3;
      save_checkpoint(file_, *job.model, job.optimizer, world, {.metadata = metadata});
      world.barrier();
      const auto whole = job.weights();
      if (world.rank() == 0) saved = whole;
    });
  }
  expect_near(alone(0, file_, make).first, saved, 0);
}

// What is updated in float32, of parameters in 16 bits, is what is saved.
TEST_F(ShardedParts, HaveFloat32OfWhatIsIn16Bits) {
  const auto& make = kMakers.at("Adam");
  run_ranks({.size = 4}, [&](World& world) {
    const Mesh mesh(world, {{"dp", 2}, {"tp", 2}});
    Writer model(mesh["tp"]);
    model->to(torch::kFloat32);
    torch::OrderedDict<std::string, torch::Tensor> originals;
    for (const auto& item : model->named_parameters())
      originals.insert(item.key(), item.value().detach().clone());
    const auto whole = gather_parameters(*model, mesh["tp"]);
    model->to(torch::kBFloat16);
    ShardedOptimizer optimizer(model->named_parameters(), make, {.stage = 2}, mesh["dp"]);
    optimizer.take_weights(originals);
    save_checkpoint(file_, *model, optimizer, world);
    world.barrier();
    // Nothing that 16 bits would tell apart is lost on the way back.
    optimizer.take_weights(model->named_parameters());
    load_checkpoint(file_, *model, optimizer, world);
    save_weights(again_, *model, optimizer, world);
    world.barrier();
    if (world.rank() != 0) return;
    for (const auto& file : {file_, again_}) {
      Writer found(World::create({}));
      found->to(torch::kFloat32);
      load_checkpoint(file, *found);
      for (const auto& item : found->named_parameters())
        EXPECT_TRUE(torch::equal(item.value(), whole.at(item.key()))) << item.key();
    }
  });
}

// Parameters that nobody trains are whole on all that have them, and the optimizer's as one
// process's has them.
TEST_F(ShardedParts, HaveWhatIsFrozen) {
  const auto& make = kMakers.at("Adam");
  const auto make_model = [](const World& tensor) {
    Writer model(tensor);
    model->up->weight.requires_grad_(false);
    model->norm->bias.requires_grad_(false);
    return model;
  };
  Weights saved;
  run_ranks({.size = 4}, [&](World& world) {
    const Mesh mesh(world, {{"dp", 2}, {"tp", 2}});
    Writer model = make_model(mesh["tp"]);
    {
      const torch::NoGradGuard guard;
      model->up->weight.add_(1);
      model->norm->bias.add_(2);
    }
    ShardedOptimizer optimizer(model->named_parameters(), make, {}, mesh["dp"]);
    save_checkpoint(file_, *model, optimizer, world);
    Writer other = make_model(mesh["tp"]);
    ShardedOptimizer its(other->named_parameters(), make, {}, mesh["dp"]);
    load_checkpoint(file_, *other, its, world);
    const auto whole = gather_parameters(*model, mesh["tp"]);
    expect_near(gather_parameters(*other, mesh["tp"]), whole, 0);
    if (world.rank() == 0) saved = whole;
  });
  run_ranks({.size = 2}, [&](World& world) {
    Writer model = make_model(World::create({}));
    ShardedOptimizer optimizer(model->named_parameters(), make, {}, world);
    load_checkpoint(file_, *model, optimizer);
    expect_near(gather_parameters(*model, World::create({})), saved, 0);
    save_checkpoint(again_, *model, optimizer);
  });
  Writer model = make_model(World::create({}));
  const auto optimizer = make(model->named_parameters());
  for (const auto& file : {file_, again_}) {
    load_checkpoint(file, *model, &*optimizer);
    expect_near(gather_parameters(*model, World::create({})), saved, 0);
  }
}

// In one process, with 16 bits, there are masters; and what has no elements has no part.
TEST_F(ShardedParts, MayBeOfOneRankAndHaveNoElements) {
  const auto& make = kMakers.at("Adam");
  const World alone = World::create({});
  struct EmptyImpl : torch::nn::Module {
    EmptyImpl() { to(torch::kBFloat16); }
    torch::Tensor none{register_parameter("none", torch::zeros({0, 3}))};
    torch::nn::Linear linear{register_module("linear", torch::nn::Linear(3, 2))};
  };
  EmptyImpl model;
  ShardedOptimizer optimizer(model.named_parameters(), make, {}, alone);
  save_checkpoint(file_, model, optimizer);
  EmptyImpl found;
  ShardedOptimizer its(found.named_parameters(), make, {}, alone);
  load_checkpoint(file_, found, its);
  EXPECT_TRUE(torch::equal(found.linear->weight, model.linear->weight));
}

TEST_F(ShardedParts, MistakesAreTold) {
  const auto& make = kMakers.at("Adam");
  run_ranks({.size = 4}, [&](World& world) {
    Job job(world, {{"dp", 2}, {"tp", 2}}, 2, make);
    // Of pieces some, and of parts some.
    const auto pieces = error_of<InputError>(
        [&] { save_checkpoint(file_, *job.model, job.optimizer, job.mesh["tp"]); });
    EXPECT_TRUE(contains(pieces, "expected a world whose ranks update all of them")) << pieces;
    const auto parts = error_of<InputError>(
        [&] { save_checkpoint(file_, *job.model, job.optimizer, job.mesh["dp"]); });
    EXPECT_TRUE(contains(parts, "expected a world whose ranks have all of it, in parts")) << parts;
    const Writer other(job.mesh["tp"]);
    EXPECT_EQ(
        error_of<InputError>([&] { save_weights(file_, *other, job.optimizer, world); }),
        "a checkpoint of a model in parts: the optimizer has a parameter 'tokens.weight', "
        "which the model has not: expected an optimizer of all parameters that this rank has");
    auto some = other->named_parameters();
    some.erase("norm.bias");
    ShardedOptimizer of_some(some, make, {}, job.mesh["dp"]);
    EXPECT_EQ(error_of<InputError>([&] { save_weights(file_, *other, of_some, world); }),
              "a checkpoint of a model in parts: the model has a parameter 'norm.bias', which the "
              "optimizer has not: expected an optimizer of all parameters that this rank has");
    EXPECT_FALSE(std::filesystem::exists(file_));
  });
}

}  // namespace
}  // namespace sullae::testing
