// What the machine's memory allows: `threads` threads each compute a[i] + b[i] into both a and b,
// as an allreduce of two ranks in buckets must (two reads and two writes a byte). Usage:
// bench_memory_floor THREADS BYTES…
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

int main(int argc, char** argv) {
  const auto threads = static_cast<std::size_t>(std::atoll(argv[1]));
  for (int i = 2; i < argc; ++i) {
    const std::size_t count = static_cast<std::size_t>(std::atoll(argv[i])) / sizeof(float);
    std::vector<float> a(count, 1e-30F);
    std::vector<float> b(count, 1e-30F);
    std::vector<double> runs;
    for (int repeat = 0; repeat < 9; ++repeat) {
      const auto start = std::chrono::steady_clock::now();
      std::vector<std::thread> workers;
      for (std::size_t t = 0; t < threads; ++t) {
        workers.emplace_back([&, t] {
          float* const x = a.data();
          float* const y = b.data();
          for (std::size_t k = count * t / threads; k < count * (t + 1) / threads; ++k)
            x[k] = y[k] = x[k] + y[k];
        });
      }
      for (auto& worker : workers) worker.join();
      const std::chrono::duration<double, std::micro> time =
          std::chrono::steady_clock::now() - start;
      runs.push_back(time.count());
    }
    std::sort(runs.begin(), runs.end());
    std::printf("%s %.3f\n", argv[i], runs[runs.size() / 2]);
  }
}
