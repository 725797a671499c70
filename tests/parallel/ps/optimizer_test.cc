// What parameter servers train.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <latch>
#include <thread>

#include "sullae/ps.h"
#include "support/errors.h"
#include "support/parameter_servers.h"
#include "support/wait_until.h"

namespace sullae::testing {
namespace {

using ps::ParameterServerOptimizer;

struct PsNetImpl : torch::nn::Module {
  explicit PsNetImpl(double seed) {
    const torch::NoGradGuard guard;
    // Without libtorch's generator, which threads would share.
    for (auto& parameter : parameters()) {
      const auto flat = torch::arange(parameter.numel(), torch::kFloat32);
      parameter.copy_((torch::sin(flat * 12.9898 + seed++) * 0.02).view(parameter.sizes()));
    }
  }
  torch::Tensor forward(const torch::Tensor& x) { return out(torch::tanh(in(x))); }
  // The first weight is cut among servers.
  torch::nn::Linear in = register_module("in", torch::nn::Linear(7, 5003));
  torch::nn::Linear out = register_module("out", torch::nn::Linear(5003, 3));
};
TORCH_MODULE(PsNet);

ps::WorkerOptions worker_of(const RunningServers& servers, int worker) {
  return {.servers = servers.endpoints(), .worker = worker, .timeout = std::chrono::seconds{30}};
}

torch::Tensor inputs(int step) {
  return torch::cos(torch::arange(12 * 7, torch::kFloat32) * (step + 1)).view({12, 7});
}

template <class Optimizer>
void train(PsNet& net, Optimizer& optimizer, int step, int part = 0, int parts = 1) {
  optimizer.zero_grad();
  net(inputs(step).chunk(parts)[part]).square().mean().backward();
  optimizer.step();
}

void expect_same(const PsNet& a, const PsNet& b, double tolerance) {
  const auto expected = b->parameters();
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_TRUE(torch::allclose(a->parameters()[i], expected[i], 0, tolerance));
}

template <class Optimizer, class Options>
void expect_as_local(const Options& options) {
  PsNet local(1);
  Optimizer optimizer(local->parameters(), options);
  for (int step = 0; step < 8; ++step) train(local, optimizer, step);
  for (const int count : {1, 2, 3}) {
    RunningServers servers(count, {});
    PsNet net(1);
    ParameterServerOptimizer remote(net->named_parameters(), options, worker_of(servers, 0));
    for (int step = 0; step < 8; ++step) train(net, remote, step);
    expect_same(net, local, 1e-6);
    EXPECT_EQ(remote.staleness().most_lead, 0);
    EXPECT_EQ(remote.staleness().most_updates, 0);
  }
}

TEST(ParameterServerOptimizer, TrainsAsTheLocalOptimizer) {
  using namespace torch::optim;
  expect_as_local<SGD>(SGDOptions(0.05).momentum(0.9));
  expect_as_local<Adam>(AdamOptions(1e-3));
  expect_as_local<AdamW>(AdamWOptions(1e-3));
  expect_as_local<Adagrad>(AdagradOptions(1e-2));
}

TEST(ParameterServerOptimizer, TrainsWithoutStalenessAsOneProcess) {
  PsNet local(0);
  torch::optim::SGD optimizer(local->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
  for (int step = 0; step < 10; ++step) train(local, optimizer, step);
  for (const int workers : {2, 3, 4}) {
    RunningServers servers(2, {.workers = workers});
    std::vector<std::jthread> threads;
    for (int worker = 0; worker < workers; ++worker) {
      threads.emplace_back([&, worker] {
        PsNet net(worker);  // worker 0's values are everybody's
        ParameterServerOptimizer remote(net->named_parameters(),
                                        torch::optim::SGDOptions(0.05).momentum(0.9),
                                        worker_of(servers, worker));
        for (int step = 0; step < 10; ++step) train(net, remote, step, worker, workers);
        expect_same(net, local, 1e-6);
      });
    }
  }
}

TEST(ParameterServerOptimizer, WithoutABoundWaitsForNobody) {
  RunningServers servers(2, {.workers = 2, .staleness = -1});
  std::latch slow_began(1);
  std::latch first_done(1);
  std::jthread slow([&] {
    PsNet net(1);
    ParameterServerOptimizer remote(net->named_parameters(), torch::optim::SGDOptions(1e-3),
                                    worker_of(servers, 1));
    slow_began.count_down();
    first_done.wait();
    train(net, remote, 0);
    EXPECT_EQ(remote.staleness().most_updates, 20);
    EXPECT_EQ(remote.staleness().most_lead, 0);
  });
  PsNet net(0);
  ParameterServerOptimizer remote(net->named_parameters(), torch::optim::SGDOptions(1e-3),
                                  worker_of(servers, 0));
  slow_began.wait();
  for (int step = 0; step < 20; ++step) train(net, remote, step);
  EXPECT_EQ(remote.staleness().most_lead, 19);
  first_done.count_down();
}

TEST(ParameterServerOptimizer, LeavesAloneWhatHasNoGradientAndTakesAnyLayout) {
  RunningServers servers(2, {});
  torch::OrderedDict<std::string, torch::Tensor> parameters;
  const auto used = torch::arange(2 * 3 * 4 * 5, torch::kFloat32)
                        .view({2, 3, 4, 5})
                        .contiguous(torch::MemoryFormat::ChannelsLast)
                        .requires_grad_(true);
  const auto unused = torch::ones({4}).requires_grad_(true);
  parameters.insert("used", used);
  parameters.insert("unused", unused);
  parameters.insert("frozen", torch::ones({2}, torch::kFloat64));
  const torch::Tensor before = used.detach().clone();
  const torch::Tensor factor = torch::sin(torch::arange(120, torch::kFloat32)).view({2, 3, 4, 5});
  ParameterServerOptimizer remote(parameters, torch::optim::SGDOptions(0.5).weight_decay(0.0),
                                  worker_of(servers, 0));
  (used * factor).sum().backward();
  remote.set_learning_rate(0.25);
  remote.step();
  EXPECT_TRUE(torch::allclose(used, before - 0.25 * factor));
  EXPECT_TRUE(torch::equal(unused, torch::ones({4})));
  EXPECT_EQ(remote.learning_rate(), 0.25);
}

// Whatever is left for step() to send, and however often backward comes.
TEST(ParameterServerOptimizer, TrainsTheSameWhileGradientsTravelDuringBackward) {
  for (const int passes : {1, 2}) {
    PsNet local(0);
    torch::optim::SGD optimizer(local->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
    const auto backward = [&](PsNet& net, int step, int part, int parts) {
      for (int pass = 0; pass < passes; ++pass)
        net(inputs(step).chunk(passes)[pass].chunk(parts)[part]).square().mean().backward();
    };
    for (int step = 0; step < 6; ++step) {
      optimizer.zero_grad();
      backward(local, step, 0, 1);
      optimizer.step();
    }
    for (const int workers : {1, 3}) {
      RunningServers servers(2, {.workers = workers});
      std::vector<std::jthread> threads;
      for (int worker = 0; worker < workers; ++worker) {
        threads.emplace_back([&, worker] {
          PsNet net(worker);
          const auto unused = torch::ones({100'000}).requires_grad_(true);
          auto parameters = net->named_parameters();
          parameters.insert("unused", unused);
          ParameterServerOptimizer remote(parameters, torch::optim::SGDOptions(0.05).momentum(0.9),
                                          worker_of(servers, worker));
          remote.overlap_backward(passes);
          for (int step = 0; step < 6; ++step) {
            remote.zero_grad();
            backward(net, step, worker, workers);
            remote.step();
          }
          expect_same(net, local, 1e-6);
          EXPECT_TRUE(torch::equal(unused, torch::ones({100'000})));
        });
      }
    }
  }
}

// The other worker sees a gradient whose sender has not stepped.
TEST(ParameterServerOptimizer, SendsGradientsBeforeTheStep) {
  RunningServers servers(1, {.workers = 2, .staleness = -1});
  PsNet net(0);
  ParameterServerOptimizer remote(net->named_parameters(), torch::optim::SGDOptions(0.1),
                                  worker_of(servers, 0));
  remote.overlap_backward();
  PsNet other(1);
  ParameterServerOptimizer reader(other->named_parameters(), torch::optim::SGDOptions(0.1),
                                  worker_of(servers, 1));
  expect_same(other, net, 0);
  net(inputs(0)).square().mean().backward();
  wait_until([&] {
    reader.pull();
    return !torch::equal(other->in->weight, net->in->weight);
  });
  EXPECT_EQ(error_of([&] { remote.set_learning_rate(0.2); }),
            "ParameterServerOptimizer: the learning rate becomes 0.2 after gradients were sent "
            "with 0.1: expected a change before backward(), which overlap_backward() sends them "
            "during");
  EXPECT_EQ(error_of([&] { remote.pull(); }),
            "worker 0 asks for the servers' values in the midst of a step, whose gradients were "
            "sent: expected step() first");
  EXPECT_EQ(error_of([&] { net(inputs(0)).square().mean().backward(); }),
            "ParameterServerOptimizer: parameter 'out.bias' gets a gradient in backward 2 of a "
            "step: expected step() after as many as overlap_backward(1) said, after which "
            "gradients are sent");
  EXPECT_EQ(error_of([&] { remote.overlap_backward(); }),
            "ParameterServerOptimizer: overlaps backward already");
  EXPECT_EQ(error_of([&] { reader.overlap_backward(0); }),
            "ParameterServerOptimizer: overlap_backward(0): expected at least one backward a step");
  remote.step();
  remote.set_learning_rate(0.2);
  remote.pull();
}

// A tied parameter is one, also on the servers; and none comes to be trained by nobody.
TEST(ParameterServerOptimizer, HasEachParameterOnce) {
  RunningServers servers(1, {});
  PsNet net(1);
  net->register_module("again", net->in);
  net->out->bias.set_requires_grad(false);
  ParameterServerOptimizer remote(net->named_parameters(), torch::optim::SGDOptions(0.1),
                                  worker_of(servers, 0));
  PsNet local(1);
  local->out->bias.set_requires_grad(false);
  torch::optim::SGD optimizer({local->in->weight, local->in->bias, local->out->weight},
                              torch::optim::SGDOptions(0.1));
  for (int step = 0; step < 3; ++step) {
    train(net, remote, step);
    train(local, optimizer, step);
  }
  EXPECT_TRUE(torch::allclose(net->in->weight, local->in->weight, 0, 1e-6));
  net->out->bias.set_requires_grad(true);
  EXPECT_TRUE(contains(error_of<InputError>([&] { train(net, remote, 3); }),
                       "ParameterServerOptimizer: parameter 'out.bias'"));
}

TEST(ParameterServerOptimizer, SaysWhatCannotBe) {
  const auto error = [](const torch::OrderedDict<std::string, torch::Tensor>& parameters,
                        const ps::RuleOptions& rule, const ps::WorkerOptions& options) {
    return error_of([&] { ParameterServerOptimizer(parameters, rule, options); });
  };
  const torch::optim::SGDOptions sgd(0.1);
  torch::OrderedDict<std::string, torch::Tensor> doubles;
  doubles.insert("w", torch::ones({2}, torch::kFloat64).requires_grad_(true));
  const ps::WorkerOptions options{.servers = {"tcp://127.0.0.1:1"}, .worker = 0};
  EXPECT_EQ(error(doubles, sgd, options),
            "ParameterServerOptimizer: parameter 'w' is Double on cpu: expected float32 leaves on "
            "the CPU");
  EXPECT_EQ(error(torch::OrderedDict<std::string, torch::Tensor>(), sgd, options),
            "ParameterServerOptimizer: no parameters to train");
  torch::OrderedDict<std::string, torch::Tensor> floats;
  floats.insert("w", torch::ones({2, 2}).requires_grad_(true));
  EXPECT_EQ(error(floats, sgd, {}),
            "ParameterServerOptimizer: no parameter servers: expected `sullae run --ps N`, "
            "SULLAE_PS_SERVERS or servers in WorkerOptions");
  EXPECT_EQ(error(floats, torch::optim::AdamOptions(0.1).amsgrad(true), options),
            "ParameterServerOptimizer: servers have no AMSGrad: expected amsgrad(false)");
  RunningServers servers(1, {});
  ParameterServerOptimizer remote(floats, sgd, worker_of(servers, 0));
  floats["w"].mutable_grad() = torch::ones({2, 2}).to_sparse();
  EXPECT_EQ(
      error_of([&] { remote.step(); }),
      "ParameterServerOptimizer: parameter 'w' has a sparse gradient: expected a dense one, or "
      "a ps::Embedding");
}

}  // namespace
}  // namespace sullae::testing
