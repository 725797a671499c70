// Trains layers with Adam, in parts or not, for tests and benchmarks of what that takes:
//   sharded_program replicated|optimizer|gradients|parameters LAYERS WIDTH BATCH STEPS [MEGABYTES [CHECKPOINT]]
// All ranks have the same samples. With MEGABYTES, unless 0, a process may have so much more memory
// of its own than before there was a model. With CHECKPOINT it is saved in the end, and loaded
// again. Rank 0 prints
//   "loss": of the last step
//   "seconds": a step's, the median
//   "network_bytes": what came and went over this host's network devices, but for loopback, in a step
//   "bytes_a_parameter": the most that all ranks together used at a time (proportional set size) beyond what they had before there
//                        was a model, by rank and parameter
//   "save_seconds", "load_seconds", "save_bytes_a_parameter", "load_bytes_a_parameter": with CHECKPOINT; the most beyond what
//                        they had after the last step
#include <fmt/format.h>
#include <sys/resource.h>
#include <torch/torch.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "sullae/parallel/sharded_optimizer.h"
#include "sullae/parallel/sharded_units.h"
#include "sullae/torch.h"

namespace {

using Clock = std::chrono::steady_clock;

struct LayerImpl : torch::nn::Module {
  explicit LayerImpl(int width)
      : linear(register_module("linear", torch::nn::Linear(width, width))) {}
  torch::Tensor forward(const torch::Tensor& x) { return torch::tanh(linear(x)); }
  torch::nn::Linear linear;
};
TORCH_MODULE(Layer);

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
  ~MostBytes() {
    ended_ = true;
    thread_.join();
  }
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

double network_bytes() {
  std::ifstream file("/proc/self/net/dev");
  double sum = 0;
  for (std::string line; std::getline(file, line);) {
    const auto colon = line.find(':');
    if (colon == std::string::npos || line.find("lo:") != std::string::npos) continue;
    // Received bytes and seven other numbers, and then the sent bytes.
    std::istringstream numbers(line.substr(colon + 1));
    std::vector<double> values(9);
    for (double& value : values) numbers >> value;
    sum += values[0] + values[8];
  }
  return sum;
}

void limit_memory(int megabytes) {
  std::ifstream file("/proc/self/status");
  for (std::string word; file >> word;) {
    if (word != "VmData:") continue;
    rlim_t kilobytes = 0;
    file >> kilobytes;
    const rlim_t most = (kilobytes << 10) + (static_cast<rlim_t>(megabytes) << 20);
    const rlimit limit{most, RLIM_INFINITY};
    if (::setrlimit(RLIMIT_DATA, &limit) != 0) throw std::runtime_error("setrlimit failed");
  }
}

class Training {
 public:
  Training(const std::string& way, int layers, int width, const sullae::World& world)
      : units_(world) {
    torch::manual_seed(1);
    const auto adam = [](const auto& pieces) {
      return std::make_unique<sullae::Adam>(pieces.values(), torch::optim::AdamOptions(1e-4));
    };
    for (int i = 0; i < layers; ++i) {
      const Layer one(width);
      for (const auto& parameter : one->parameters())
        parameters_ += static_cast<double>(parameter.numel());
      if (way == "parameters")
        in_parts_.push_back(units_.shard(one, std::to_string(i)));
      else
        model_->push_back(one);
    }
    if (way == "parameters") {
      sharded_.emplace(units_, adam);
    } else if (way == "replicated") {
      whole_ = adam(model_->named_parameters());
      replicated_.emplace(*whole_, model_->named_parameters());
    } else {
      sharded_.emplace(model_->named_parameters(), adam,
                       sullae::ShardedOptimizerOptions{.stage = way == "gradients" ? 2 : 1});
    }
  }

  double parameters() const { return parameters_; }
  void save(const std::string& file) {
    if (!replicated_) return sullae::save_checkpoint(file, *model_, *sharded_);
    if (sullae::world().rank() == 0) sullae::save_checkpoint(file, *model_, whole_.get());
  }
  void load(const std::string& file) {
    if (!replicated_) {
      sullae::load_checkpoint(file, *model_, *sharded_);
      return;
    }
    if (sullae::world().rank() == 0) sullae::load_checkpoint(file, *model_, whole_.get());
    sullae::broadcast_parameters(*model_, 0, sullae::world());
    sullae::broadcast_optimizer_state(*whole_, 0, sullae::world());
  }
  double step(const torch::Tensor& input) {
    return replicated_ ? step(*replicated_, input) : step(*sharded_, input);
  }

 private:
  template <class Optimizer>
  double step(Optimizer& optimizer, torch::Tensor x) {
    optimizer.zero_grad();
    if (in_parts_.empty()) x = model_->forward(x);
    for (auto& one : in_parts_) x = one(x);
    const auto loss = (x - 0.5).square().mean();
    loss.backward();
    optimizer.step();
    return loss.template item<double>();
  }

  double parameters_ = 0;
  torch::nn::Sequential model_;
  sullae::ShardedUnits units_;
  std::vector<sullae::ShardedUnit<LayerImpl>> in_parts_;
  std::unique_ptr<torch::optim::Optimizer> whole_;
  std::optional<sullae::DistributedOptimizer> replicated_;
  std::optional<sullae::ShardedOptimizer> sharded_;
};

// What `what` takes, and the most that all ranks together use of memory beyond what they had.
struct Taken {
  Taken(const sullae::World& world, const std::function<void()>& what) {
    const double had = own_bytes();
    MostBytes most;
    const auto start = Clock::now();
    world.barrier();
    what();
    world.barrier();
    seconds = std::chrono::duration<double>(Clock::now() - start).count();
    bytes = std::max(0.0, most.end() - had);
    world.allreduce(&bytes, &bytes, 1, sullae::DataType::float64);
  }
  double seconds = 0;
  double bytes = 0;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 6) return 2;
  const int width = std::stoi(argv[3]);
  const int batch = std::stoi(argv[4]);
  const int steps = std::stoi(argv[5]);
  const auto world = sullae::init();
  at::set_num_threads(1);
  torch::manual_seed(2);
  const auto input = torch::randn({batch, width});
  const double before = own_bytes();
  MostBytes most_bytes;
  if (argc > 6 && std::stoi(argv[6]) > 0) limit_memory(std::stoi(argv[6]));
  Training training(argv[1], std::stoi(argv[2]), width, world);
  // What is learnt once, and who connects to whom, is not what a step takes.
  constexpr int kFirst = 3;
  for (int step = 0; step < kFirst; ++step) training.step(input);
  world.barrier();
  const double sent_before = network_bytes();
  double loss = 0;
  std::vector<double> seconds;
  for (int step = 0; step < steps; ++step) {
    const auto start = Clock::now();
    loss = training.step(input);
    seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count());
  }
  world.barrier();
  const double sent = network_bytes() - sent_before;
  double most = most_bytes.end() - before;
  world.allreduce(&most, &most, 1, sullae::DataType::float64);
  const auto median = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
  std::ranges::nth_element(seconds, median);
  std::string checkpoint;
  if (argc > 7) {
    const double before_it = training.step(input);
    const Taken save(world, [&] { training.save(argv[7]); });
    const double after = training.step(input);
    // It takes addresses of all of it, and memory of parts.
    const rlimit none{RLIM_INFINITY, RLIM_INFINITY};
    ::setrlimit(RLIMIT_DATA, &none);
    const Taken load(world, [&] { training.load(argv[7]); });
    if (training.step(input) != after)
      throw std::runtime_error("what was loaded is not what was saved");
    const double ranks = world.size() * training.parameters();
    checkpoint = fmt::format(
        ", \"save_seconds\": {:.3f}, \"load_seconds\": {:.3f}, \"save_bytes_a_parameter\": "
        "{:.3f}, \"load_bytes_a_parameter\": {:.3f}",
        save.seconds, load.seconds, save.bytes / ranks, load.bytes / ranks);
    if (before_it == after) throw std::runtime_error("nothing is learnt");
  }
  if (world.rank() == 0)
    fmt::print(
        "{{\"loss\": {:.9f}, \"seconds\": {:.6f}, \"network_bytes\": {}, "
        "\"bytes_a_parameter\": {:.3f}{}}}\n",
        loss, *median, sent / steps, most / world.size() / training.parameters(), checkpoint);
  sullae::shutdown();
  return 0;
}
