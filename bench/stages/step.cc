// Seconds a step of a model in stages:
//   sullae run -np 2 bench_stages computing|sleeping gpipe|1f1b|interleaved MICRO_BATCHES STEPS
// With one rank it is one process that accumulates the micro-batches. Stages sleep 4 ms forward and
// 8 ms backward, divided by how many a rank has, or compute. Rank 0 prints {"seconds": median}.
#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "sullae/parallel/pipeline.h"
#include "sullae/torch.h"

namespace {

using Clock = std::chrono::steady_clock;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr std::int64_t kWidth = 512;
constexpr int kLayers = 16;
constexpr std::int64_t kSamples = 64;  // of a micro-batch

struct Sleep : torch::autograd::Function<Sleep> {
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& x,
                               std::int64_t microseconds) {
    context->saved_data["microseconds"] = microseconds;
    std::this_thread::sleep_for(std::chrono::microseconds{microseconds});
    return x + 1;
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    std::this_thread::sleep_for(
        std::chrono::microseconds{2 * context->saved_data["microseconds"].toInt()});
    return {gradients[0], {}};
  }
};

struct SleeperImpl : torch::nn::Cloneable<SleeperImpl> {
  explicit SleeperImpl(std::int64_t microseconds) : takes(microseconds) { SleeperImpl::reset(); }
  void reset() override { scale = register_parameter("scale", torch::ones({1})); }
  torch::Tensor forward(const torch::Tensor& x) { return Sleep::apply(x * scale, takes); }
  std::int64_t takes;
  torch::Tensor scale;
};
TORCH_MODULE(Sleeper);

torch::nn::Sequential model(bool sleeps, int stages) {
  torch::nn::Sequential layers;
  if (sleeps) {
    for (int i = 0; i < stages; ++i) layers->push_back(Sleeper(8000 / stages));
    return layers;
  }
  for (int i = 0; i < kLayers; ++i) {
    layers->push_back(torch::nn::Linear(kWidth, kWidth));
    layers->push_back(torch::nn::Tanh());
  }
  return layers;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    fmt::print(
        stderr,
        "usage: bench_stages computing|sleeping gpipe|1f1b|interleaved MICRO_BATCHES STEPS\n");
    return 2;
  }
  const bool sleeps = std::string(argv[1]) == "sleeping";
  const std::string schedule = argv[2];
  const int micro_batches = std::stoi(argv[3]);
  const int steps = std::stoi(argv[4]);
  const auto world = sullae::init();
  at::set_num_threads(1);
  torch::manual_seed(1);
  const int each = schedule == "interleaved" ? 2 : 1;
  // Of two ranks, whatever the number here.
  auto layers = model(sleeps, 2 * each);
  const auto batch = torch::randn({kSamples * micro_batches, kWidth});
  const auto loss = [](const torch::Tensor& output, const torch::Tensor&) {
    return output.square().mean();
  };
  std::optional<sullae::Pipeline> pipe;
  if (world.size() > 1)
    pipe.emplace(
        sullae::divide(layers, batch.narrow(0, 0, kSamples), world, {.stages_per_rank = each}),
        world, sullae::PipelineOptions{.schedule = schedule, .micro_batches = micro_batches});
  torch::optim::SGD sgd(pipe ? pipe->parameters().values() : layers->parameters(), 1e-3);
  std::vector<double> seconds;
  for (int step = 0; step < steps; ++step) {
    const auto start = Clock::now();
    sgd.zero_grad();
    if (pipe) {
      pipe->step(batch, batch, loss);
    } else {
      for (const auto& part : batch.tensor_split(micro_batches, 0))
        (loss(layers->forward(part), part) / micro_batches).backward();
    }
    sgd.step();
    seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count());
  }
  std::ranges::sort(seconds);
  if (world.rank() == 0) fmt::print("{{\"seconds\": {:.6f}}}\n", seconds[seconds.size() / 2]);
}
