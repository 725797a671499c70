#include "launch/launcher.h"

#include <fmt/format.h>

#include "launch/elastic/elastic_job.h"
#include "launch/fixed_job.h"

namespace sullae {
namespace {

struct Outcome {
  int exit_code = 0;
  bool asked_for = false;  // by a signal, or by a limit of the whole job
};

Outcome run_once(const JobOptions& options) {
  const auto run = [](Job&& job) {
    const int exit_code = job.run();
    return Outcome{.exit_code = exit_code, .asked_for = job.asked_to_end()};
  };
  return options.elastic ? run(elastic::ElasticJob(options)) : run(FixedJob(options));
}

}  // namespace

int run_job(JobOptions options) {
  for (int restarts = 0;; ++restarts) {
    const Outcome outcome = run_once(options);
    if (outcome.exit_code == 0 || outcome.asked_for || restarts == options.restarts)
      return outcome.exit_code;
    say(fmt::format("starting the job again ({} of {} restarts)", restarts + 1, options.restarts));
    // Why it failed is in what it wrote.
    options.append_output = true;
  }
}

}  // namespace sullae
