// Tries settings of the engine on the job that runs, and keeps the best.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/environment.h"
#include "engine/autotune/settings.h"
#include "engine/autotune/successive_halving.h"
#include "engine/negotiation/request.h"

namespace sullae::engine {

struct AutotuneOptions {
  /// SULLAE_AUTOTUNE (0 or 1): the engine tries settings while the job runs, and keeps the best.
  bool on = false;
  /// SULLAE_AUTOTUNE_LOG: the file that rank 0 writes, a line a sample, as CSV; empty for none.
  std::filesystem::path log;
  /// SULLAE_AUTOTUNE_WARMUP_SAMPLES: samples that are thrown away at the start, while the job
  /// itself warms up.
  std::size_t warmup_samples = 3;
  /// SULLAE_AUTOTUNE_STEPS_PER_SAMPLE.
  std::size_t steps_per_sample = 10;

  static AutotuneOptions from(const Environment& environment);
};

/// Every combination that is worth trying. The first is what is set now; the fusion threshold does
/// not grow.
std::vector<Settings> candidates_around(const Settings& now,
                                        const std::vector<std::string>& algorithms);

/// Scores settings by the bytes that operations move in a second, the program's own work included.
/// A step ends where a name comes again. Of rank 0. Used by one thread at a time.
class Autotuner {
 public:
  using Clock = std::chrono::steady_clock;

  /// Throws InputError where the log cannot be written.
  Autotuner(std::vector<Settings> candidates, AutotuneOptions options);
  /// Says so where it has come to no choice.
  ~Autotuner();

  /// Call after each operation. The settings to change to, if a sample is complete.
  std::optional<Settings> note(const Request& request, Clock::time_point now);
  bool done() const { return done_; }

 private:
  bool begins_step(const Request& request);
  std::optional<Settings> end_sample(Clock::time_point now);
  void write(const std::string& sample, const Settings& settings, double score);

  std::vector<Settings> candidates_;
  AutotuneOptions options_;
  SuccessiveHalving search_;
  std::ofstream log_;
  std::unordered_set<std::string> step_;  // names that this step has seen
  std::size_t unnamed_ = 0;
  std::size_t warmups_left_;
  std::size_t sample_ = 0;
  // Steps of the sample. The first of each is not counted: it may still have run as before.
  std::size_t steps_ = 0;
  std::uint64_t bytes_ = 0;
  Clock::time_point start_;
  bool done_ = false;
};

}  // namespace sullae::engine
