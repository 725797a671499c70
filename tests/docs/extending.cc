// What docs/extending.md shows, compiled. What each does is tested beside its seam, in the files
// extending_test.cc.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "collective/p2p/allreduce_algorithms.h"
#include "launch/host_launcher.h"
#include "sullae/compression.h"
#include "sullae/torch.h"
#include "sullae/train/objective.h"
#include "torch/reduction/dense_reduction.h"
#include "transport/transports.h"

namespace sullae {

void registers_compression(torch::optim::Optimizer& sgd,
                           const torch::OrderedDict<std::string, torch::Tensor>& parameters);
void registers_transport();
void registers_algorithm();
void registers_reduction();
void registers_host_launcher();

namespace {

// clang-format off
class Signs final : public sullae::Compression {
 public:
  std::string name() const override { return "signs"; }
  void allreduce(sullae::Communicator& ranks, float* values, std::size_t count, sullae::ReduceOp) override {
    std::vector<std::int32_t> signs(count);  // a byte would hold the sum of 127 ranks
    for (std::size_t i = 0; i < count; ++i) signs[i] = values[i] < 0 ? -1 : 1;
    ranks.allreduce(signs.data(), signs.data(), count, sullae::DataType::int32, sullae::ReduceOp::sum);
    for (std::size_t i = 0; i < count; ++i) values[i] = signs[i];
  }
};

}  // namespace

void registers_compression(torch::optim::Optimizer& sgd,
                           const torch::OrderedDict<std::string, torch::Tensor>& parameters) {
  sullae::register_compression("signs", [](std::string_view) { return std::make_unique<Signs>(); });
  sullae::DistributedOptimizer optimizer(sgd, parameters, {.compression = "signs"});
}

namespace {

struct Net : torch::nn::Module {
  torch::Tensor forward(const torch::Tensor& x) { return x; }
};

class SumAndDifference final : public sullae::train::Objective {
 public:
  torch::Tensor loss(torch::nn::Module& model, const sullae::train::Batch& batch) const override {
    const auto errors = (model.as<Net>()->forward(batch.inputs[0]) - batch.labels).square();
    return errors.select(1, 0).mean() + 0.5 * errors.select(1, 1).mean();
  }
};

}  // namespace

TEST(ExtendingDocs, TheObjectiveAddsTwoLosses) {
  Net net;
  const sullae::train::Batch batch{{torch::tensor({{3.0, 2.0}})}, torch::zeros({1, 2})};
  EXPECT_DOUBLE_EQ(SumAndDifference().loss(net, batch).item<double>(), 11);
}

namespace {

class MyTransport final : public sullae::Transport {
 public:
  MyTransport(sullae::Rendezvous&, sullae::TransportOptions) {}
  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::string name() const override { return "mine"; }
  int world_rank(int peer) const override { return peer; }
  Request send(int, std::uint64_t, const void*, std::size_t) override { return {}; }
  Request receive(int, std::uint64_t, void*, std::size_t) override { return {}; }
  void wait(std::span<Request>) override {}
  bool test(Request&) override { return true; }
  std::optional<Arrival> probe(std::uint64_t) override { return std::nullopt; }
  void abandon() noexcept override {}
};

}  // namespace

void registers_transport() {
  sullae::register_transport({"mine", [](sullae::Rendezvous& rendezvous, sullae::TransportOptions options) {
                                return std::make_unique<MyTransport>(rendezvous, std::move(options));
                              }});
}

namespace {

void allreduce_mine(p2p::Exchange& exchange, const Signature& signature, const p2p::Reduction& reduction) {
  exchange.check_neighbours(signature);  // so that a mismatch is found before data moves
  static_cast<void>(reduction);
}

}  // namespace

void registers_algorithm() {
  p2p::register_allreduce_algorithm({.name = "mine",
                                     .can_run = [](int ranks) { return ranks <= 8; },
                                     .suits = [](std::size_t bytes, int) { return bytes < 4096; },
                                     .run = allreduce_mine});
}

namespace reduction_of_ones_own {

class Mine final : public sullae::DenseReduction {
 public:
  explicit Mine(const sullae::ReductionRequest& request) : DenseReduction(request, sullae::GradientMemory::shared(request)) {}
  void reduce(sullae::Communicator& ranks) override { reduce_flags(ranks); }
};

}  // namespace reduction_of_ones_own

void registers_reduction() {
  using reduction_of_ones_own::Mine;
  sullae::register_reduction([](const sullae::ReductionRequest& request) -> std::unique_ptr<sullae::BucketReduction> {
    if (request.plan.sparse) return nullptr;  // not meant for these: the next is asked
    return std::make_unique<Mine>(request);
  });
}

namespace launcher_of_ones_own {

class Mine final : public sullae::HostLauncher {
 public:
  explicit Mine(std::string host) : host_(std::move(host)) {}
  sullae::AgentChannel start(const std::vector<std::string>& agent) override {
    return sullae::open_channel({"my-shell", host_, agent[0], agent[1]});
  }

 private:
  std::string host_;
};

}  // namespace launcher_of_ones_own

void registers_host_launcher() {
  using launcher_of_ones_own::Mine;
  sullae::register_host_launcher([](const std::string& host, const sullae::JobOptions&) -> std::unique_ptr<sullae::HostLauncher> {
    if (!host.starts_with("node")) return nullptr;  // not known: the next is asked
    return std::make_unique<Mine>(host);
  });
}
// clang-format on

}  // namespace sullae
