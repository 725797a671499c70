// The floor of an operation through the engine: two threads of this process hand a word to and fro,
// asleep while they wait.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <thread>

int main() {
  std::atomic<int> word{0};
  constexpr int kTurns = 5000;
  std::array<double, 5> runs{};
  for (double& run : runs) {
    std::thread other([&] {
      for (int i = 0; i < kTurns; ++i) {
        word.wait(2 * i);
        word.store(2 * i + 2);
        word.notify_one();
      }
    });
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < kTurns; ++i) {
      word.store(2 * i + 1);
      word.notify_one();
      word.wait(2 * i + 1);
    }
    const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - start;
    run = time.count() / kTurns;
    other.join();
    word.store(0);
  }
  std::sort(runs.begin(), runs.end());
  std::printf("to_and_fro %.3f\n", runs[runs.size() / 2]);
}
