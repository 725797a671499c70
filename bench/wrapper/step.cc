// Usage: bench_step plain|to_none|wrapped: milliseconds of a training step of 30 × Linear(256, 256)
// with a batch of 16.
//
// plain    libtorch alone, whose zero_grad() fills with zeros
// to_none  libtorch alone, with gradients that are removed after each step
// wrapped  in a DistributedOptimizer, with its zero_grad()
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "sullae/torch.h"

int main(int argc, char** argv) {
  constexpr int kLayers = 30;
  constexpr int kWidth = 256;
  constexpr int kBatch = 16;
  constexpr int kSteps = 300;
  const std::string way = argc > 1 ? argv[1] : "wrapped";
  sullae::init();
  torch::manual_seed(1);
  torch::nn::Sequential net;
  for (int i = 0; i < kLayers; ++i) net->push_back(torch::nn::Linear(kWidth, kWidth));
  torch::optim::SGD sgd(net->parameters(), 0.01);
  sullae::DistributedOptimizer* wrapped = nullptr;
  std::unique_ptr<sullae::DistributedOptimizer> owner;
  if (way == "wrapped") {
    owner = std::make_unique<sullae::DistributedOptimizer>(sgd, net->named_parameters());
    wrapped = owner.get();
  }
  const std::function<void()> clear = [&] {
    if (wrapped != nullptr) {
      wrapped->zero_grad();
    } else if (way == "to_none") {
      for (auto& parameter : net->parameters()) parameter.mutable_grad() = torch::Tensor();
    } else {
      for (auto& parameter : net->parameters()) {
        if (parameter.grad().defined()) parameter.mutable_grad().detach_().zero_();
      }
    }
  };
  const auto batch = torch::randn({kBatch, kWidth});
  std::vector<double> times;
  for (int step = 0; step < kSteps; ++step) {
    const auto start = std::chrono::steady_clock::now();
    clear();
    net->forward(batch).square().mean().backward();
    if (wrapped != nullptr) {
      wrapped->step();
    } else {
      sgd.step();
    }
    times.push_back(
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
            .count());
  }
  std::ranges::nth_element(times, times.begin() + kSteps / 2);
  if (sullae::rank() == 0) std::printf("%s %.3f\n", way.c_str(), times[kSteps / 2]);
  owner.reset();
  sullae::shutdown();
}
