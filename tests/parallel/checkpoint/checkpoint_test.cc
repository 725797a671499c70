// What ranks save in parts is what one process saves, and goes to any number of ranks.
#include "sullae/torch/checkpoint.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <torch/torch.h>

#include <csignal>
#include <fstream>

#include "parallel/sharded_state.h"
#include "sullae/parallel/sharded_optimizer.h"
#include "sullae/parallel/sharded_units.h"
#include "sullae/torch.h"
#include "support/errors.h"
#include "support/ranks.h"
#include "support/temporary_directory.h"
#include "torch/checkpoint_file.h"
#include "torch/zip_directory.h"

namespace sullae::testing {
namespace {

constexpr std::int64_t kBatch = 60;  // divisible by 1 to 6 ranks

// Tensors that are read at once and such that are read in parts, in another order than a contiguous one, without a gradient,
// frozen, tied, of other types, and without elements.
struct NetImpl : torch::nn::Module {
  explicit NetImpl(torch::ScalarType type = torch::kFloat32) {
    to(type);
    const torch::NoGradGuard guard;
    double seed = 1;
    // Without libtorch's generator, which threads would share.
    for (auto& parameter : parameters()) {
      const auto flat = torch::arange(parameter.numel(), torch::kFloat64);
      parameter.copy_((torch::sin(flat * 12.9898 + seed) * 0.2).view(parameter.sizes()));
      seed += 1.7;
    }
    conv->weight.set_data(conv->weight.contiguous(torch::MemoryFormat::ChannelsLast));
    for (auto& parameter : frozen->parameters()) parameter.requires_grad_(false);
    register_parameter("tied", three->weight);
    register_parameter("empty", torch::zeros({0, 4}));
    register_buffer("table", torch::arange(20'000, torch::kInt64));
    register_buffer("nothing", torch::zeros({0, 3}));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    const auto y = torch::tanh(two(torch::tanh(one(x))));
    const auto image = conv(y.narrow(1, 0, 128).reshape({-1, 32, 2, 2}));
    return three(frozen(y)) + image.mean({2, 3}).narrow(1, 0, 5);
  }
  torch::nn::Linear one{register_module("one", torch::nn::Linear(7, 300))};
  torch::nn::Linear two{register_module("two", torch::nn::Linear(300, 130))};
  torch::nn::Conv2d conv{
      register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(32, 64, 3).padding(1)))};
  torch::nn::Linear frozen{register_module("frozen", torch::nn::Linear(130, 130))};
  torch::nn::Linear never{register_module("never", torch::nn::Linear(3, 3))};
  torch::nn::Linear three{register_module("three", torch::nn::Linear(130, 5))};
};
TORCH_MODULE(Net);

torch::OrderedDict<std::string, torch::Tensor> trained(const Net& net) {
  torch::OrderedDict<std::string, torch::Tensor> parameters;
  for (const auto& item : net->named_parameters()) {
    if (item.key() != "tied" && item.value().requires_grad())
      parameters.insert(item.key(), item.value());
  }
  return parameters;
}

const std::map<std::string, ShardedOptimizer::Maker> kMakers = {
    {"Adam",
     [](const auto& pieces) {
       return std::make_unique<Adam>(pieces.values(), torch::optim::AdamOptions(0.01));
     }},
    {"SGD",
     [](const auto& pieces) {
       return std::make_unique<torch::optim::SGD>(pieces.values(),
                                                  torch::optim::SGDOptions(0.05).momentum(0.9));
     }},
    {"Adagrad",
     [](const auto& pieces) {
       return std::make_unique<torch::optim::Adagrad>(pieces.values(),
                                                      torch::optim::AdagradOptions(0.01));
     }},
    {"two groups", [](const auto& pieces) {
       std::vector<torch::Tensor> matrices;
       std::vector<torch::Tensor> others;
       for (const auto& item : pieces)
         (item.key().ends_with("weight") ? matrices : others).push_back(item.value());
       std::vector<torch::optim::OptimizerParamGroup> groups;
       groups.emplace_back(others);
       groups.emplace_back(matrices, std::make_unique<torch::optim::AdamWOptions>(0.003));
       return std::make_unique<torch::optim::AdamW>(groups, torch::optim::AdamWOptions(0.01));
     }}};

void run_steps(Net& net, ShardedOptimizer& optimizer, torch::ScalarType type, int steps,
               const World& world) {
  for (int step = 0; step < steps; ++step) {
    const auto all = torch::sin(torch::arange(kBatch * 7, torch::kFloat64).view({kBatch, 7}) * 0.4 +
                                static_cast<double>(step))
                         .to(type);
    const auto own = all.narrow(0, world.rank() * kBatch / world.size(), kBatch / world.size());
    optimizer.zero_grad();
    (net->forward(own) - torch::cos(own.narrow(1, 0, 5))).pow(2).mean().backward();
    optimizer.step();
  }
}

// What a process finds in a checkpoint that knows nothing of ranks.
struct Found {
  Found(const std::filesystem::path& file, torch::ScalarType type,
        const ShardedOptimizer::Maker& make)
      : net(type), optimizer(make(trained(net))) {
    metadata = load_checkpoint(file, *net, optimizer.get());
  }
  Net net;
  std::unique_ptr<torch::optim::Optimizer> optimizer;
  CheckpointMetadata metadata;
};

bool same(const c10::IValue& one, const c10::IValue& other) {
  if (one.isTensor() != other.isTensor()) return false;
  if (!one.isTensor()) return one == other;
  return torch::equal(one.toTensor(), other.toTensor());
}

void expect_same(Found& one, Found& other, const std::string& what) {
  for (const auto& item : one.net->named_parameters())
    EXPECT_TRUE(torch::equal(item.value(), other.net->named_parameters()[item.key()]))
        << what << ' ' << item.key();
  for (const auto& item : one.net->named_buffers())
    EXPECT_TRUE(torch::equal(item.value(), other.net->named_buffers()[item.key()]))
        << what << ' ' << item.key();
  const auto ones = trained(one.net);
  const auto others = trained(other.net);
  for (const auto& item : ones) {
    const auto state = state_of(*one.optimizer, item.value());
    const auto its = state_of(*other.optimizer, others[item.key()]);
    ASSERT_EQ(state.size(), its.size()) << what << ' ' << item.key();
    for (const auto& [name, value] : state)
      EXPECT_TRUE(same(value, its.at(name))) << what << ' ' << item.key() << ' ' << name;
  }
  for (std::size_t group = 0; group < one.optimizer->param_groups().size(); ++group)
    EXPECT_EQ(one.optimizer->param_groups()[group].options().get_lr(),
              other.optimizer->param_groups()[group].options().get_lr());
}

void expect_right_checksums(const std::filesystem::path& file) {
  CheckedFile checked(file);
  const auto read = [&](std::uint64_t position, void* into, std::size_t bytes) {
    ASSERT_EQ(checked.read(position, into, bytes), bytes);
  };
  for (const ZipMember& member : zip_members(read, checked.size())) {
    std::string content(member.bytes, '\0');
    read(member.begin, content.data(), content.size());
    if (member.name.find("/data/") == std::string::npos) continue;  // perhaps compressed
    for (const std::uint64_t at : member.checksums) {
      std::uint32_t crc = 0;
      read(at, &crc, sizeof crc);
      EXPECT_EQ(crc, extend_crc(0, content.data(), content.size())) << member.name;
    }
  }
}

class ShardedCheckpoint : public ::testing::Test {
 protected:
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path()))
      names.push_back(entry.path().filename());
    return names;
  }
  // Of a training of some steps.
  void save(int ranks, const ShardedOptimizer::Maker& make,
            torch::ScalarType type = torch::kFloat32, bool also_whole = false) {
    run_ranks({.size = ranks}, [&](World& world) {
      Net net(type);
      ShardedOptimizer optimizer(trained(net), make, {.bucket_bytes = 7000}, world);
      run_steps(net, optimizer, type, 4, world);
      CheckpointMetadata metadata;
      if (world.rank() == 0)
        metadata = {{{"step", 4}}, {{"words", "a\nb"}}, {{"large", torch::arange(30'000)}}};
      save_checkpoint(file_, *net, optimizer, {.metadata = metadata});
      if (!also_whole) return;
      auto whole = optimizer.gather();
      const auto master = whole.weights.find("three.weight");
      if (master != whole.weights.end()) whole.weights["tied"] = master->second;
      if (world.rank() == 0)
        save_checkpoint(whole_, *net, whole.optimizer.get(),
                        {.metadata = metadata, .weights = std::move(whole.weights)});
    });
  }

  TemporaryDirectory folder_;
  std::filesystem::path file_ = folder_.path() / "checkpoint";
  std::filesystem::path whole_ = folder_.path() / "whole";
  std::filesystem::path again_ = folder_.path() / "again";
};

TEST_F(ShardedCheckpoint, IsWhatOneProcessSaves) {
  for (const auto type : {torch::kFloat32, torch::kFloat64, torch::kBFloat16}) {
    for (const auto& [name, make] : kMakers) {
      SCOPED_TRACE(name + c10::toString(type));
      save(3, make, type, /*also_whole=*/true);
      EXPECT_EQ(files().size(), 2U);
      expect_right_checksums(file_);
      const auto found_type = type == torch::kBFloat16 ? torch::kFloat32 : type;
      Found found(file_, found_type, make);
      Found expected(whole_, found_type, make);
      expect_same(found, expected, "");
      EXPECT_EQ(found.metadata.numbers, expected.metadata.numbers);
      EXPECT_EQ(found.metadata.texts, expected.metadata.texts);
      EXPECT_TRUE(torch::equal(found.metadata.tensors.at("large"), torch::arange(30'000)));
      // And to whom Sullae is unknown.
      Net net(found_type);
      torch::load(net, file_.string());
      EXPECT_TRUE(torch::equal(net->conv->weight, expected.net->conv->weight));
    }
  }
}

TEST_F(ShardedCheckpoint, GoesToAnyRanks) {
  for (const auto& [name, make] : kMakers) {
    for (const auto type : {torch::kFloat32, torch::kBFloat16}) {
      save(4, make, type);
      const auto found_type = type == torch::kBFloat16 ? torch::kFloat32 : type;
      Found expected(file_, found_type, make);
      for (const int ranks : {1, 2, 3, 5}) {
        SCOPED_TRACE(fmt::format("{} on {} {}", name, ranks, c10::toString(type)));
        run_ranks({.size = ranks}, [&](World& world) {
          Net net(type);
          {
            const torch::NoGradGuard guard;
            for (auto& parameter : net->parameters()) parameter.fill_(9);
            net->named_buffers()["table"].fill_(9);
          }
          ShardedOptimizer optimizer(trained(net), make, {.stage = 1}, world);
          const auto metadata = load_checkpoint(file_, *net, optimizer);
          EXPECT_EQ(metadata.texts.at("words"), "a\nb");
          EXPECT_EQ(metadata.tensors.at("large").numel(), 30'000);
          for (const auto& item : net->named_parameters())
            EXPECT_TRUE(
                torch::equal(item.value(), expected.net->named_parameters()[item.key()].to(type)))
                << item.key();
          EXPECT_TRUE(torch::equal(net->named_buffers()["table"], torch::arange(20'000)));
          save_checkpoint(again_, *net, optimizer, {.metadata = metadata});
          run_steps(net, optimizer, type, 1, world);  // and trains on
        });
        Found again(again_, found_type, make);
        expect_same(again, expected, "again");
      }
    }
  }
}

// One of those that one process has saved.
TEST_F(ShardedCheckpoint, MayBeOneProcesss) {
  const auto& make = kMakers.at("Adam");
  save(2, make, torch::kFloat32, /*also_whole=*/true);
  Found expected(whole_, torch::kFloat32, make);
  run_ranks({.size = 3}, [&](World& world) {
    Net net;
    ShardedOptimizer optimizer(trained(net), make, {}, world);
    load_checkpoint(whole_, *net, optimizer);
    save_checkpoint(again_, *net, optimizer);
  });
  Found again(again_, torch::kFloat32, make);
  expect_same(again, expected, "again");
}

TEST_F(ShardedCheckpoint, OfUnitsGoesToAnyRanksAndToOneProcess) {
  const auto& make = kMakers.at("Adam");
  struct BlockImpl : torch::nn::Module {
    torch::nn::Linear linear{register_module("linear", torch::nn::Linear(150, 150))};
    torch::nn::BatchNorm1d norm{register_module("norm", torch::nn::BatchNorm1d(150))};
    torch::nn::Linear frozen{register_module("frozen", torch::nn::Linear(2, 2))};
    torch::Tensor empty = register_parameter("empty", torch::zeros({0}));
    torch::Tensor forward(const torch::Tensor& x) { return norm(linear(x)); }
  };
  const auto make_block = [](int i) {
    auto block = std::make_shared<BlockImpl>();
    const torch::NoGradGuard guard;
    for (auto& parameter : block->linear->parameters())
      parameter.copy_(torch::sin(torch::arange(parameter.numel()) + i).view(parameter.sizes()) *
                      0.1);
    for (auto& parameter : block->frozen->parameters()) parameter.fill_(i).requires_grad_(false);
    return block;
  };
  const auto run = [&](int ranks, const std::function<void(torch::nn::Module&, ShardedOptimizer&,
                                                           const std::function<void()>&)>& body) {
    run_ranks({.size = ranks}, [&](World& world) {
      ShardedUnits units(world);
      std::vector<ShardedUnit<BlockImpl>> blocks;
      for (int i = 0; i < 3; ++i)
        blocks.push_back(units.shard(torch::nn::ModuleHolder<BlockImpl>(make_block(i)),
                                     "blocks." + std::to_string(i)));
      torch::nn::Module rest;
      rest.register_buffer("mean", torch::full({3}, 0.5));
      ShardedOptimizer optimizer(units, make);
      body(rest, optimizer, [&] {
        auto x = torch::cos(torch::arange(kBatch * 150).view({kBatch, 150}) * 0.01);
        optimizer.zero_grad();
        for (auto& block : blocks) x = torch::tanh(block(x));
        (x - 0.3).pow(2).mean().backward();
        optimizer.step();
      });
    });
  };
  run(3, [&](auto& rest, auto& optimizer, const auto& step) {
    step();
    step();
    save_checkpoint(file_, rest, optimizer);
    save_checkpoint(whole_, rest, optimizer);  // twice the same
    step();
    save_checkpoint(whole_, rest, optimizer);
  });
  const auto load = [&](const std::filesystem::path& file) {
    auto whole = std::make_shared<torch::nn::Module>();
    whole->register_buffer("mean", torch::zeros({3}));
    auto blocks = whole->register_module("blocks", std::make_shared<torch::nn::Module>());
    for (int i = 0; i < 3; ++i) blocks->register_module(std::to_string(i), make_block(7));
    torch::OrderedDict<std::string, torch::Tensor> parameters;
    for (const auto& item : whole->named_parameters()) {
      if (item.value().requires_grad()) parameters.insert(item.key(), item.value());
    }
    const auto optimizer = make(parameters);
    load_checkpoint(file, *whole, optimizer.get());
    EXPECT_EQ(whole->named_parameters()["blocks.2.frozen.weight"].sum().item<double>(), 8);
    EXPECT_GT(whole->named_buffers()["blocks.0.norm.num_batches_tracked"].item<int>(), 1);
    EXPECT_EQ(whole->buffers()[0].sum().item<double>(), 1.5);
    return whole->named_parameters();
  };
  const auto expected = load(whole_);
  const std::string weight = "blocks.0.linear.weight";
  EXPECT_FALSE(torch::equal(load(file_)[weight], expected[weight]));
  for (const int ranks : {1, 2, 4}) {
    run(ranks, [&](auto& rest, auto& optimizer, const auto& step) {
      rest.buffers()[0].fill_(9);
      load_checkpoint(file_, rest, optimizer);
      EXPECT_EQ(rest.buffers()[0].sum().template item<double>(), 1.5);
      step();
      save_checkpoint(again_, rest, optimizer);
    });
    const auto found = load(again_);
    for (const auto& item : expected)
      EXPECT_TRUE(torch::allclose(found[item.key()], item.value(), 0, 1e-6))
          << ranks << ' ' << item.key();
  }
}

TEST_F(ShardedCheckpoint, MistakesOfSavingAreToldToAllAndLeaveTheOldOne) {
  const auto& make = kMakers.at("Adam");
  save(3, make);
  Found expected(file_, torch::kFloat32, make);
  run_ranks({.size = 3}, [&](World& world) {
    Net net;
    ShardedOptimizer optimizer(trained(net), make, {}, world);
    run_steps(net, optimizer, torch::kFloat32, 1, world);
    const auto error_of_saving = [&](const std::filesystem::path& file, CheckpointOptions options) {
      return error_of([&] { save_checkpoint(file, *net, optimizer, options); });
    };
    EXPECT_TRUE(contains(error_of_saving(folder_.path() / "no" / "file", {}),
                         "no/file cannot be written: No such file or directory (rank 0)"));
    EXPECT_TRUE(contains(error_of_saving(file_, {.weights = {{"one.weight", torch::ones(1)}}}),
                         "leave `weights` empty"));
    // No rank may write as far as that.
    world.barrier();
    rlimit before{};
    if (world.rank() == 0) {
      ::signal(SIGXFSZ, SIG_IGN);
      ::getrlimit(RLIMIT_FSIZE, &before);
      const rlimit little{1000, before.rlim_max};
      ::setrlimit(RLIMIT_FSIZE, &little);
    }
    world.barrier();
    EXPECT_TRUE(contains(error_of_saving(file_, {}), "cannot be written: File too large"));
    world.barrier();
    if (world.rank() == 0) ::setrlimit(RLIMIT_FSIZE, &before);
    world.barrier();
  });
  EXPECT_EQ(files(), std::vector<std::string>{"checkpoint"});
  Found found(file_, torch::kFloat32, make);
  expect_same(found, expected, "");
}

TEST_F(ShardedCheckpoint, MistakesOfLoadingAreToldToAll) {
  const auto& make = kMakers.at("Adam");
  save(2, make);
  const auto plain = folder_.path() / "plain";
  save_checkpoint(plain, *Net());
  const auto torn = folder_.path() / "torn";
  std::filesystem::copy_file(file_, torn);
  std::filesystem::resize_file(torn, std::filesystem::file_size(file_) - 100);
  const auto damaged = folder_.path() / "damaged";
  std::filesystem::copy_file(file_, damaged);
  std::fstream stream(damaged, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekp(5000);
  stream.put('x');
  stream.close();
  run_ranks({.size = 3}, [&](World& world) {
    Net net;
    ShardedOptimizer optimizer(trained(net), make, {}, world);
    const auto error = [&](const std::filesystem::path& file) {
      return error_of([&] { load_checkpoint(file, *net, optimizer); });
    };
    EXPECT_THROW(load_checkpoint(torn, *net, optimizer), CheckpointError);
    EXPECT_TRUE(contains(error(folder_.path() / "none"), "none: cannot be opened"));
    EXPECT_TRUE(contains(error(torn), "torn: is torn"));
    EXPECT_TRUE(contains(error(damaged), "damaged: is damaged"));
    EXPECT_TRUE(contains(error(plain), "plain: has no optimizer state"));
    for (const char* other : {"SGD", "two groups"}) {
      Net another;
      ShardedOptimizer of_another_kind(trained(another), kMakers.at(other), {}, world);
      EXPECT_TRUE(contains(error_of([&] { load_checkpoint(file_, *another, of_another_kind); }),
                           "the optimizer's state "));
    }
    torch::nn::Linear other(300, 130);
    ShardedOptimizer of_another(other->named_parameters(), make, {}, world);
    EXPECT_TRUE(contains(error_of([&] { load_checkpoint(file_, *other, of_another); }),
                         "has no 'weight': it belongs to another model"));
    EXPECT_THROW(load_checkpoint(file_, *other, of_another), InputError);
    // After all that.
    load_checkpoint(file_, *net, optimizer);
  });
}

}  // namespace
}  // namespace sullae::testing
