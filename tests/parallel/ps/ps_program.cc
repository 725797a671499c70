// A worker of parameter servers, for tests: fits a line to points, and prints what it found.
//   ps_program STEPS [MILLISECONDS [count]]
// With MILLISECONDS it rests so long in each step. With `count` the slope goes up by 1 with each
// step, and the offset stays.
#include <fmt/format.h>
#include <torch/torch.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "sullae/ps.h"

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const bool counts = argc > 3;
  const std::chrono::milliseconds rest{argc > 2 ? std::stoi(argv[2]) : 0};
  torch::nn::Linear line(1, 1);
  try {
    sullae::ps::ParameterServerOptimizer optimizer(line->named_parameters(),
                                                   torch::optim::SGDOptions(counts ? 1 : 0.1));
    const auto x = torch::linspace(-1, 1, 50).view({50, 1});
    for (int step = 0; step < std::stoi(argv[1]); ++step) {
      optimizer.zero_grad();
      if (counts)
        (0 * line->bias - line->weight).sum().backward();
      else
        (line->forward(x) - (3 * x + 2)).square().mean().backward();
      optimizer.step();
      if (step == 0) {
        fmt::print("began as {}\n", ::getpid());
        std::fflush(stdout);
      }
      std::this_thread::sleep_for(rest);
    }
    fmt::print("{:.2f} {:.2f}, at most {} steps ahead\n", line->weight.item<double>(),
               line->bias.item<double>(), optimizer.staleness().most_lead);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
  return 0;
}
