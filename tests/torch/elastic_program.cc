// An elastic program for tests: trains a network on numbered samples, a part of each step's batch
// on each rank, and does to itself what it is told to at a step.
//
// Each worker writes a line a step: its number, its first sample and the one behind its last, the
// generation, and when it was done, in nanoseconds of the monotonic clock.
//
// `sync` kills it from that step on, while it gives its state to others.
//
// The first weights are those of the first world's rank 0, whichever worker that was: `seed` in
// FOLDER says which, and --seed begins with the same.
//
// With --hold nobody takes that step before there are so many ranks, with --wait none before that
// worker has begun; with --sampler yes samples are a sampler's, of one epoch; with --sets yes ranks
// with even and with odd numbers have a process set each; with
// --recipe yes there are two backward passes a step, whose losses are scaled, and the learning rate
// falls.
//
//   elastic_program FOLDER STEPS [--at WORKER:STEP:kill|term|throw|sync]... [--hold STEP:RANKS]... [--pause MS] [--state MEGABYTES]
//                   [--seed SEED] [--wait STEP:WORKER] [--sampler yes] [--sets yes] [--recipe yes] [--limits MIN:MAX]
#include <torch/torch.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <optional>
#include <sstream>
#include <stdexcept>
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

struct Hold {
  std::int64_t step = 0;
  int ranks = 0;
};

struct Options {
  std::filesystem::path folder;
  std::int64_t steps = 0;
  std::vector<Deed> deeds;
  std::vector<Hold> holds;
  std::int64_t waiting_step = -1;
  int awaited = 0;
  int pause = 0;
  std::int64_t megabytes = 0;
  std::optional<std::int64_t> seed;
  bool with_sampler = false;
  bool with_sets = false;
  bool with_recipe = false;
  sullae::elastic::Limits limits;
};

Options parse(int argc, char** argv) {
  Options options{.folder = argv[1], .steps = std::atoll(argv[2])};
  std::istringstream value;
  const std::map<std::string, std::function<void()>> flags = {
      {"--at",
       [&] {
         Deed deed;
         value >> deed.worker >> deed.step >> deed.what;
         options.deeds.push_back(deed);
       }},
      {"--hold",
       [&] {
         Hold hold;
         value >> hold.step >> hold.ranks;
         options.holds.push_back(hold);
       }},
      {"--wait",
       [&] {
         value >> options.waiting_step >> options.awaited;
       }},
      {"--pause",
       [&] {
         value >> options.pause;
       }},
      {"--state",
       [&] {
         value >> options.megabytes;
       }},
      {"--seed",
       [&] {
         value >> options.seed.emplace();
       }},
      {"--sampler",
       [&] {
         options.with_sampler = true;
       }},
      {"--sets",
       [&] {
         options.with_sets = true;
       }},
      {"--recipe",
       [&] {
         options.with_recipe = true;
       }},
      {"--limits",
       [&] {
         value >> options.limits.min >> options.limits.max;
       }},
  };
  for (int i = 3; i + 1 < argc; i += 2) {
    std::string text = argv[i + 1];
    std::ranges::replace(text, ':', ' ');
    value = std::istringstream(text);
    flags.at(argv[i])();
  }
  return options;
}

void do_deed(const std::string& what) {
  if (what == "kill") ::raise(SIGKILL);
  if (what == "term") ::raise(SIGTERM);
  if (what == "throw") throw std::runtime_error("as it was told to");
}

// The one that this rank is in.
sullae::World half_of(const sullae::World& world) {
  std::optional<sullae::World> own;
  for (const int parity : {0, 1}) {
    std::vector<int> ranks;
    for (int rank = parity; rank < world.size(); rank += 2) ranks.push_back(rank);
    if (ranks.empty()) continue;
    if (auto set = world.process_set(ranks)) own = std::move(set);
  }
  return *own;
}

void expect_to_count(sullae::World& set, std::int64_t step) {
  std::int64_t sum = step;
  set.allreduce(&sum, &sum, 1, sullae::DataType::int64, sullae::ReduceOp::sum);
  if (sum != step * set.size()) throw std::logic_error("a process set is not of this world");
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  const char* const number = std::getenv("SULLAE_ELASTIC_WORKER");
  const int worker = number == nullptr ? 0 : std::atoi(number);
  // Apart, until rank 0's weights are everybody's.
  std::int64_t seed = options.seed.value_or(worker + 1);
  const std::filesystem::path& folder = options.folder;
  const std::int64_t steps = options.steps;
  torch::manual_seed(seed);
  torch::set_num_threads(1);

  auto network = std::make_shared<Network>();
  network->to(torch::kFloat64);
  if (options.megabytes > 0)  // which no step changes
    network->register_parameter("ballast", torch::zeros({options.megabytes << 17}, torch::kFloat64),
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
        for (const Deed& deed : options.deeds) {
          if (deed.worker == worker && deed.what == "sync" && deed.step <= step) do_deed("kill");
        }
        return "";
      },
      [](const std::string&) {});
  bool done = false;
  const auto outcome = sullae::elastic::run(state, options.limits, [&](sullae::World& world) {
    const int passes = options.with_recipe ? 2 : 1;
    sullae::DistributedOptimizer distributed(optimizer, network->named_parameters(),
                                             {.backward_passes_per_step = passes}, world);
    const auto part = static_cast<std::size_t>(kBatch / world.size());
    sullae::DistributedSampler sampler(static_cast<std::size_t>(steps * kBatch),
                                       {.shuffle = false, .block = part}, world);
    sampler.set_epoch(0, static_cast<std::size_t>(step * kBatch));
    auto half = options.with_sets ? std::optional(half_of(world)) : std::nullopt;
    for (; step < steps;) {
      const auto must_wait = [&] {
        return std::ranges::any_of(options.holds,
                                   [&](const Hold& hold) {
                                     return step == hold.step && world.size() < hold.ranks;
                                   }) ||
               (step == options.waiting_step &&
                !std::filesystem::exists(folder / ("samples-" + std::to_string(options.awaited))));
      };
      while (must_wait()) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        state.ask();
      }
      for (const Deed& deed : options.deeds) {
        if (deed.worker == worker && deed.step == step) do_deed(deed.what);
      }
      auto first = step * kBatch + kBatch * world.rank() / world.size();
      auto last = step * kBatch + kBatch * (world.rank() + 1) / world.size();
      if (options.with_sampler) {
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
        (options.with_recipe ? scaler.scale(loss) : loss).backward();
      }
      if (options.with_recipe) {
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
      if (half) expect_to_count(*half, step);
      distributed.step();
      // Before step_done(), after which the samples of the step are everybody's.
      log << step << ' ' << first << ' ' << last << ' ' << state.changes().back().generation << ' '
          << std::chrono::steady_clock::now().time_since_epoch().count() << std::endl;
      std::this_thread::sleep_for(std::chrono::milliseconds(options.pause));
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
