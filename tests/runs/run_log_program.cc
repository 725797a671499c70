// A run that is written as fast as it goes, and may be killed at any moment: run_log_program FOLDER
// STEPS [continue]. What it prints is kept.
#include <cstdio>
#include <cstdlib>

#include "sullae/run_log.h"

int main(int count, char** words) {
  if (count < 3) return 2;
  const long steps = std::strtol(words[2], nullptr, 10);
  using sullae::RunLog;
  RunLog log(words[1], {.settings = {{"steps", words[2]}}},
             count > 3 ? RunLog::Earlier::continued : RunLog::Earlier::refused);
  for (long step = 1; step <= steps; ++step) {
    log.scalars(step, {{"train/loss", 1.0 / static_cast<double>(step)}, {"train/lr", 0.1}});
    std::printf("%ld\n", step);
    std::fflush(stdout);
  }
  log.completed();
  return 0;
}
