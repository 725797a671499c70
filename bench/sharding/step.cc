// Seconds a step, and memory, of an optimizer that is replicated or sharded:
//   sullae run -np 4 bench_sharding replicated|optimizer|gradients|parameters LAYERS WIDTH BATCH STEPS
// Rank 0 prints {"seconds": median, "bytes_a_parameter": …}: the most that all ranks together used at a time (proportional set
// size) beyond what they had before the model was made, by rank and parameter.
#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "sullae/parallel/sharded_optimizer.h"
#include "sullae/parallel/sharded_units.h"
#include "sullae/torch.h"

namespace {

using Clock = std::chrono::steady_clock;

// Memory that several processes share counts in each by its part.
double own_bytes() {
  std::ifstream file("/proc/self/smaps_rollup");
  for (std::string word; file >> word;) {
    if (word != "Pss:") continue;
    double kilobytes = 0;
    file >> kilobytes;
    return kilobytes * 1024;
  }
  return 0;
}

class MostBytes {
 public:
  MostBytes() : thread_([this] { look(); }) {}
  ~MostBytes() { thread_.join(); }
  double end() {
    ended_ = true;
    return most_;
  }

 private:
  void look() {
    while (!ended_) {
      most_ = std::max<double>(most_, own_bytes());
      std::this_thread::sleep_for(std::chrono::milliseconds{20});
    }
  }
  std::atomic<bool> ended_ = false;
  std::atomic<double> most_ = 0;
  std::thread thread_;
};

struct LayerImpl : torch::nn::Module {
  explicit LayerImpl(int width)
      : linear(register_module("linear", torch::nn::Linear(width, width))) {}
  torch::Tensor forward(const torch::Tensor& x) { return torch::tanh(linear(x)); }
  torch::nn::Linear linear;
};
TORCH_MODULE(Layer);

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) {
    fmt::print(stderr,
               "usage: bench_sharding replicated|optimizer|gradients|parameters LAYERS WIDTH BATCH "
               "STEPS\n");
    return 2;
  }
  const std::string what = argv[1];
  const int layers = std::stoi(argv[2]);
  const int width = std::stoi(argv[3]);
  const int batch = std::stoi(argv[4]);
  const int steps = std::stoi(argv[5]);
  const auto world = sullae::init();
  at::set_num_threads(1);
  const double before = own_bytes();
  MostBytes bytes;
  const auto adam = [](const auto& pieces) {
    return std::make_unique<sullae::Adam>(pieces.values(), torch::optim::AdamOptions(1e-4));
  };
  torch::nn::Sequential model;
  sullae::ShardedUnits units(world);
  std::vector<sullae::ShardedUnit<LayerImpl>> layers_in_parts;
  std::unique_ptr<torch::optim::Optimizer> whole;
  std::optional<sullae::DistributedOptimizer> replicated;
  std::optional<sullae::ShardedOptimizer> sharded;
  double parameters = 0;
  for (int i = 0; i < layers; ++i) {
    const Layer one(width);
    for (const auto& parameter : one->parameters())
      parameters += static_cast<double>(parameter.numel());
    if (what == "parameters")
      layers_in_parts.push_back(units.shard(one, std::to_string(i)));
    else
      model->push_back(one);
  }
  if (what == "parameters") {
    sharded.emplace(units, adam);
  } else {
    sullae::broadcast_parameters(*model, 0);
    if (what == "replicated") {
      whole = adam(model->named_parameters());
      replicated.emplace(*whole, model->named_parameters());
    } else {
      sharded.emplace(model->named_parameters(), adam,
                      sullae::ShardedOptimizerOptions{.stage = what == "gradients" ? 2 : 1});
    }
  }
  const auto forward = [&](torch::Tensor x) {
    if (what != "parameters") return model->forward(x);
    for (auto& one : layers_in_parts) x = one(x);
    return x;
  };
  const auto input = torch::randn({batch, width});
  std::vector<double> seconds;
  for (int step = 0; step < steps; ++step) {
    const auto start = Clock::now();
    const auto run = [&](auto& optimizer) {
      optimizer.zero_grad();
      forward(input).square().mean().backward();
      optimizer.step();
    };
    replicated ? run(*replicated) : run(*sharded);
    seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count());
  }
  double most = bytes.end() - before;
  world.allreduce(&most, &most, 1, sullae::DataType::float64);
  std::ranges::nth_element(seconds,
                           seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2));
  if (world.rank() == 0)
    fmt::print("{{\"seconds\": {:.6f}, \"bytes_a_parameter\": {:.3f}}}\n",
               seconds[seconds.size() / 2], most / world.size() / parameters);
}
