#include "launch/launcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/descriptors.h"
#include "launch/elastic/elastic_job.h"
#include "launch/fixed_job.h"

namespace sullae {
namespace {

struct Outcome {
  int exit_code = 0;
  bool asked_for = false;  // by a signal, or by a limit of the whole job
  bool could_not = false;  // begin, or go on
};

// `may_begin_again`: where it cannot begin, nor go on, it says why; else it throws Error.
Outcome run_once(const JobOptions& options, bool may_begin_again) {
  const auto run = [&](Job&& job) {
    Outcome outcome{.exit_code = 1};
    try {
      outcome.exit_code = job.run();
    } catch (const InputError&) {
      throw;
    } catch (const Error& error) {
      if (!may_begin_again || job.asked_to_end()) throw;
      say(error.what());
      outcome.could_not = true;
    }
    outcome.asked_for = job.asked_to_end();
    return outcome;
  };
  return options.elastic ? run(elastic::ElasticJob(options)) : run(FixedJob(options));
}

}  // namespace

int run_job(JobOptions options) {
  // Of each rank three connections to the store, at most, and what its host's agent needs of this
  // process.
  constexpr std::size_t kOwn = 256;
  const int ranks = options.elastic ? options.elastic->max_ranks : options.ranks;
  allow_descriptors(kOwn + 4 * static_cast<std::size_t>(ranks));
  if (options.timeout.count() > 0) options.deadline.emplace(options.timeout, "--timeout");
  std::chrono::seconds pause{0};
  for (int restarts = 0;; ++restarts) {
    const bool is_last = restarts == options.restarts;
    const Outcome outcome = run_once(options, restarts > 0 && !is_last);
    if (outcome.exit_code == 0 || outcome.asked_for || is_last) return outcome.exit_code;
    // A host may be about to start again.
    pause = outcome.could_not
                ? std::min(std::max(2 * pause, std::chrono::seconds{1}), std::chrono::seconds{30})
                : std::chrono::seconds{0};
    std::this_thread::sleep_for(pause);
    say(fmt::format("starting the job again ({} of {} restarts)", restarts + 1, options.restarts));
    // Why it failed is in what it wrote.
    options.append_output = true;
  }
}

}  // namespace sullae
