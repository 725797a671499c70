// An elastic program for tests: trains a network on numbered samples, a part of each step's batch on each rank, and does
// to itself what it is told to at a step.
//
// Each worker writes a line a step: its number, its first sample and the one behind its last, the generation, and when it was
// done, in nanoseconds of the monotonic clock.
//
// `sync` kills it from that step on, while it gives its state to others.
//
// The first weights are those of the first world's rank 0, whichever worker that was: `seed` in FOLDER says which, and --seed
// begins with the same.
//
// With --hold nobody takes that step before there are so many ranks, with --wait none before that worker has begun; with --sampler
// yes samples are a sampler's, of one epoch; with --recipe yes there are two backward passes a step, whose losses are scaled, and the
// learning rate falls. A `die` is a kill at that step, or the first one that the worker takes behind it.
//
//   elastic_program FOLDER STEPS [--at WORKER:STEP:kill|die|term|throw|sync]... [--pause MS] [--state MEGABYTES] [--seed SEED]
//                   [--hold STEP:RANKS] [--wait STEP:WORKER] [--sampler yes] [--recipe yes]
#include <torch/torch.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "sullae/elastic.h"
#include "sullae/torch.h"

namespace {

constexpr std::int64_t kBatch = 12;

struct Network : torch::nn::Module {
  Network() {
    embedding = register_module(
        "embedding", torch::nn::Embedding(torch::nn::EmbeddingOptions(50, 6).sparse(true)));
    body = register_module("body", torch::nn::Linear(6, 20));
    head = register_module("head", torch::nn::Linear(20, 1));
    seen = register_buffer("seen", torch::zeros({1}, torch::kFloat64));
  }
  torch::Tensor forward(const torch::Tensor& words) {
    seen += 1;  // of a forward that may have to be taken back
    return head(torch::tanh(body(embedding(words))));
  }
  torch::nn::Embedding embedding{nullptr};
  torch::nn::Linear body{nullptr};
  torch::nn::Linear head{nullptr};
  torch::Tensor seen;
};

struct Deed {
  int worker = 0;
  std::int64_t step = 0;
  std::string what;
};

void do_deed(const std::string& what) {
  if (what == "kill" || what == "die") ::raise(SIGKILL);
  if (what == "term") ::raise(SIGTERM);
  if (what == "throw") throw std::runtime_error("as it was told to");
}

}  // namespace

int main(int argc, char** argv) {
  const std::filesystem::path folder = argv[1];
  const std::int64_t steps = std::atoll(argv[2]);
  std::vector<Deed> deeds;
  int pause = 0;
  std::int64_t held_step = 0;
  int least_ranks = 0;
  std::int64_t megabytes = 0;
  bool with_sampler = false;
  bool with_recipe = false;
  std::int64_t waiting_step = -1;
  int awaited = 0;
  const char* const number = std::getenv("SULLAE_ELASTIC_WORKER");
  const int worker = number == nullptr ? 0 : std::atoi(number);
  std::int64_t seed = worker + 1;  // apart, until rank 0's weights are everybody's
  for (int i = 3; i + 1 < argc; i += 2) {
    std::string value = argv[i + 1];
    if (std::string(argv[i]) == "--pause") {
      pause = std::stoi(value);
      continue;
    }
    if (std::string(argv[i]) == "--state") {
      megabytes = std::stoll(value);
      continue;
    }
    if (std::string(argv[i]) == "--sampler") {
      with_sampler = true;
      continue;
    }
    if (std::string(argv[i]) == "--recipe") {
      with_recipe = true;
      continue;
    }
    if (std::string(argv[i]) == "--seed") {
      seed = std::stoll(value);
      continue;
    }
    std::replace(value.begin(), value.end(), ':', ' ');
    if (std::string(argv[i]) == "--hold") {
      std::istringstream(value) >> held_step >> least_ranks;
      continue;
    }
    if (std::string(argv[i]) == "--wait") {
      std::istringstream(value) >> waiting_step >> awaited;
      continue;
    }
    Deed deed;
    std::istringstream(value) >> deed.worker >> deed.step >> deed.what;
    deeds.push_back(deed);
  }
  torch::manual_seed(seed);
  torch::set_num_threads(1);

  auto network = std::make_shared<Network>();
  network->to(torch::kFloat64);
  if (megabytes > 0)  // which no step changes
    network->register_parameter("ballast", torch::zeros({megabytes << 17}, torch::kFloat64),
                                /*requires_grad=*/false);
  torch::optim::SGD optimizer(network->parameters(), torch::optim::SGDOptions(0.05));
  std::int64_t step = 0;
  std::ofstream log(folder / ("samples-" + std::to_string(worker)), std::ios::app);
  sullae::elastic::State state(*network, optimizer);
  state.track("step", step);
  state.track("seed", seed);
  sullae::LossScaler scaler({.scale = 1024, .growth_interval = 10});
  state.track(
      "scaler",
      [&] {
        std::string text;
        for (const double one : scaler.state()) text += std::to_string(one) + ' ';
        return text;
      },
      [&](const std::string& text) {
        std::istringstream words(text);
        std::vector<double> of_others;
        for (double one = 0; words >> one;) of_others.push_back(one);
        scaler.load_state(of_others);
      });
  state.track(
      "deed",
      [&]() -> std::string {
        for (const Deed& deed : deeds) {
          if (deed.worker == worker && deed.what == "sync" && deed.step <= step) do_deed("kill");
        }
        return "";
      },
      [](const std::string&) {});
  bool done = false;
  const auto outcome = sullae::elastic::run(state, [&](sullae::World& world) {
    const int passes = with_recipe ? 2 : 1;
    sullae::DistributedOptimizer distributed(optimizer, network->named_parameters(),
                                             {.backward_passes_per_step = passes}, world);
    const auto part = static_cast<std::size_t>(kBatch / world.size());
    sullae::DistributedSampler sampler(static_cast<std::size_t>(steps * kBatch),
                                       {.shuffle = false, .block = part}, world);
    sampler.set_epoch(0, static_cast<std::size_t>(step * kBatch));
    for (; step < steps;) {
      while (step == held_step && world.size() < least_ranks) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        state.ask();
      }
      while (step == waiting_step &&
             !std::filesystem::exists(folder / ("samples-" + std::to_string(awaited)))) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        state.ask();
      }
      for (const Deed& deed : deeds) {
        if (deed.worker != worker) continue;
        if (deed.step == step || (deed.what == "die" && deed.step <= step)) do_deed(deed.what);
      }
      auto first = step * kBatch + kBatch * world.rank() / world.size();
      auto last = step * kBatch + kBatch * (world.rank() + 1) / world.size();
      if (with_sampler) {
        const auto batch = *sampler.next(part);
        first = static_cast<std::int64_t>(batch.front());
        last = static_cast<std::int64_t>(batch.back()) + 1;
      }
      distributed.zero_grad();
      for (int pass = 0; pass < passes; ++pass) {
        const auto numbers = torch::arange(first + (last - first) * pass / passes,
                                           first + (last - first) * (pass + 1) / passes);
        const auto wanted = torch::sin(numbers.to(torch::kFloat64)).unsqueeze(1);
        const auto loss =
            (network->forward(numbers.remainder(50)) - wanted).pow(2).sum() * world.size() / kBatch;
        (with_recipe ? scaler.scale(loss) : loss).backward();
      }
      if (with_recipe) {
        distributed.synchronize();
        const torch::NoGradGuard guard;
        for (const torch::Tensor& parameter : network->parameters()) {
          if (parameter.grad().defined()) parameter.mutable_grad().div_(scaler.scale());
        }
        scaler.update(/*finite=*/true);
        const auto done_share = static_cast<double>(step) / static_cast<double>(steps);
        for (auto& group : optimizer.param_groups())
          static_cast<torch::optim::SGDOptions&>(group.options())
              .lr(0.05 * (1 + std::cos(3 * done_share)) / 2);
      }
      distributed.step();
      // Before step_done(), after which the samples of the step are everybody's.
      log << step << ' ' << first << ' ' << last << ' ' << state.changes().back().generation << ' '
          << std::chrono::steady_clock::now().time_since_epoch().count() << std::endl;
      if (pause > 0) std::this_thread::sleep_for(std::chrono::milliseconds(pause));
      ++step;
      state.step_done();
    }
    done = true;
    if (world.rank() == 0) {
      std::ofstream weights(folder / "weights");
      weights.precision(17);
      for (const auto& tensors : {network->parameters(), network->buffers()}) {
        for (const torch::Tensor& tensor : tensors) {
          if (tensor.numel() >= 1 << 17) continue;
          const auto flat = tensor.detach().reshape(-1);
          for (std::int64_t i = 0; i < flat.numel(); ++i) weights << flat[i].item<double>() << '\n';
        }
      }
      std::ofstream(folder / "seed") << seed << '\n';
      std::ofstream changes(folder / "changes");
      for (const auto& change : state.changes())
        changes << change.generation << ' ' << change.ranks << ' ' << change.pause.count() << ' '
                << change.reason << '\n';
    }
    world.barrier();
  });
  return outcome == sullae::elastic::Outcome::left || done ? 0 : 3;
}
