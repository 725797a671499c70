// The tensors of the gradient benchmarks, and how each program measures a step.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

namespace bench {

/// Elements of ResNet-50's parameters: 161 tensors, 25.6 million values.
inline std::vector<std::size_t> resnet50() {
  std::vector<std::size_t> sizes;
  const auto convolution = [&](std::size_t in, std::size_t out, std::size_t width) {
    for (const auto size : {in * out * width * width, out, out}) sizes.push_back(size);
  };
  convolution(3, 64, 7);
  std::size_t in = 64;
  std::size_t middle = 64;
  for (const int blocks : {3, 4, 6, 3}) {
    for (int block = 0; block < blocks; ++block) {
      convolution(in, middle, 1);
      convolution(middle, middle, 3);
      convolution(middle, 4 * middle, 1);
      if (block == 0) convolution(in, 4 * middle, 1);
      in = 4 * middle;
    }
    middle *= 2;
  }
  sizes.push_back(std::size_t{2048} * 1000);
  sizes.push_back(1000);
  return sizes;
}

/// "resnet50", or "small": 1,000 tensors of 256 elements.
inline std::vector<std::size_t> sizes_named(const std::string& name) {
  return name == "small" ? std::vector<std::size_t>(1000, 256) : resnet50();
}

/// Prints "NAME milliseconds" of one step: the median of several.
inline void run(const char* name, int rank, int steps, const std::function<void()>& barrier,
                const std::function<void()>& step) {
  for (int i = 0; i < 3; ++i) step();
  std::vector<double> times;
  for (int i = 0; i < steps; ++i) {
    barrier();
    const auto start = std::chrono::steady_clock::now();
    step();
    const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - start;
    times.push_back(time.count());
  }
  std::sort(times.begin(), times.end());
  if (rank == 0) std::printf("%s %.4f\n", name, times[times.size() / 2]);
}

}  // namespace bench
