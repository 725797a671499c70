#include "engine/autotune/autotuner.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"
#include "sullae/error.h"

namespace sullae::engine {
namespace {

// So many operations without names are a step.
constexpr std::size_t kUnnamedStep = 100;

double milliseconds(std::chrono::microseconds time) {
  return static_cast<double>(time.count()) * 1e-3;
}

}  // namespace

AutotuneOptions AutotuneOptions::from(const Environment& environment) {
  AutotuneOptions options;
  read_switch(environment, "SULLAE_AUTOTUNE", options.on);
  std::string log;
  read_text(environment, "SULLAE_AUTOTUNE_LOG", log);
  options.log = log;
  read_count(environment, "SULLAE_AUTOTUNE_WARMUP_SAMPLES", options.warmup_samples);
  read_count(environment, "SULLAE_AUTOTUNE_STEPS_PER_SAMPLE", options.steps_per_sample, 1);
  return options;
}

std::vector<Settings> candidates_around(const Settings& now,
                                        const std::vector<std::string>& algorithms) {
  std::vector<Settings> all = {now};
  for (const std::size_t divisor : {1, 8, 64, 512}) {
    for (const auto cycle_time :
         {now.cycle_time, std::chrono::microseconds{200}, std::chrono::microseconds{5000}}) {
      for (const std::string& algorithm : algorithms) {
        const Settings one{now.fusion_threshold / divisor, cycle_time, algorithm};
        if (std::ranges::find(all, one) == all.end()) all.push_back(one);
      }
    }
  }
  return all;
}

Autotuner::Autotuner(std::vector<Settings> candidates, AutotuneOptions options)
    : candidates_(std::move(candidates)),
      options_(std::move(options)),
      search_(candidates_.size()),
      warmups_left_(options_.warmup_samples),
      done_(search_.done()) {
  if (options_.log.empty()) return;
  log_.open(options_.log);
  log_ << "sample,fusion_threshold,cycle_time_ms,allreduce_algorithm,mbytes_per_s" << std::endl;
  if (!log_) {
    throw InputError(
        fmt::format("SULLAE_AUTOTUNE_LOG='{}': cannot be written", options_.log.string()));
  }
}

Autotuner::~Autotuner() {
  if (done_) return;
  if (steps_ == 0 && sample_ == 0)
    log::warning(
        "autotune: there was nothing to tune: no operation in the background, such as "
        "allreduce_async(), and DistributedOptimizer's are planned ahead (docs/tuning.md)");
  else
    log::warning("autotune: the end came after {} samples, before a choice: expected more steps",
                 sample_);
}

bool Autotuner::begins_step(const Request& request) {
  if (request.unnamed()) {
    unnamed_ = (unnamed_ + 1) % kUnnamedStep;
    return unnamed_ == 0;
  }
  if (step_.insert(request.name).second) return false;
  step_ = {request.name};
  return true;
}

std::optional<Settings> Autotuner::note(const Request& request, Clock::time_point now) {
  if (done_) return std::nullopt;
  std::optional<Settings> next;
  if (begins_step(request)) {
    if (steps_++ == 0) {
      start_ = now;
      bytes_ = 0;
    } else if (steps_ > options_.steps_per_sample) {
      next = end_sample(now);
    }
  }
  bytes_ += request.signature.count * element_size(request.signature.type);
  return next;
}

std::optional<Settings> Autotuner::end_sample(Clock::time_point now) {
  const double seconds = std::chrono::duration<double>(now - start_).count();
  const double score = static_cast<double>(bytes_) / 1e6 / std::max(seconds, 1e-9);
  steps_ = 0;
  if (warmups_left_ > 0) {
    --warmups_left_;
    return std::nullopt;
  }
  const std::size_t measured = search_.current();
  write(std::to_string(sample_++), candidates_[measured], score);
  search_.score(score);
  const Settings& next = candidates_[search_.current()];
  if (search_.done()) {
    done_ = true;
    const double median = search_.median(search_.current());
    write("best", next, median);
    log::info(
        "autotune: kept SULLAE_FUSION_THRESHOLD={} SULLAE_CYCLE_TIME={} "
        "SULLAE_ALLREDUCE_ALGORITHM={} ({:.1f} MB/s, the best of {} after {} samples)",
        next.fusion_threshold, milliseconds(next.cycle_time), next.allreduce_algorithm, median,
        candidates_.size(), sample_);
  }
  if (!done_ && search_.current() == measured) return std::nullopt;
  return next;
}

void Autotuner::write(const std::string& sample, const Settings& settings, double score) {
  if (!log_.is_open()) return;
  log_ << fmt::format("{},{},{},{},{:.3f}", sample, settings.fusion_threshold,
                      milliseconds(settings.cycle_time), settings.allreduce_algorithm, score)
       << std::endl;
  if (log_) return;
  log::warning("autotune: '{}' cannot be written any more", options_.log.string());
  log_.close();
}

}  // namespace sullae::engine
