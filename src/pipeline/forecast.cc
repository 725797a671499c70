#include "pipeline/forecast.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

namespace sullae::pipeline {

Usual usual_of(std::span<const RunRecord> runs) {
  constexpr std::size_t kLast = 10;
  std::map<std::string, std::vector<double>> times;
  for (const RunRecord& run : runs) {
    for (const auto& [name, step] : run.steps) {
      auto& some = times[name];
      if (step.state == StepState::done && some.size() < kLast)
        some.push_back(static_cast<double>(step.ended - step.started));
    }
  }
  Usual usual;
  for (auto& [name, some] : times) {
    if (some.empty()) continue;
    const auto middle = some.begin() + static_cast<std::ptrdiff_t>(some.size() / 2);
    std::ranges::nth_element(some, middle);
    usual[name] = *middle;
  }
  return usual;
}

Forecast forecast(const Pipeline& pipeline, const RunRecord& run, const Usual& usual, Time now) {
  const auto usual_time = [&](const std::string& step) {
    const auto found = usual.find(step);
    return found == usual.end() ? Time{0} : static_cast<Time>(std::ceil(found->second));
  };
  std::map<std::string, Time> ends;
  // When each of so many steps at a time is over.
  std::vector<Time> places(
      pipeline.parallel > 0 ? static_cast<std::size_t>(pipeline.parallel) : pipeline.steps.size(),
      now);
  const auto take_place = [&](Time begin, Time takes) {
    auto& place = *std::ranges::min_element(places);
    place = std::max(place, begin) + takes;
    return place;
  };
  const auto record_of = [&](const Step& step) {
    const auto found = run.steps.find(step.name);
    return found == run.steps.end() ? StepRecord() : found->second;
  };
  for (const Step& step : pipeline.steps) {
    const StepRecord record = record_of(step);
    if (record.is_over()) ends[step.name] = now;
    if (record.state == StepState::running)
      ends[step.name] =
          take_place(now, std::max<Time>(0, record.started + usual_time(step.name) - now));
  }
  // As a run does it: of those that wait the one that can begin first, and of several the first in
  // the file.
  const auto ready_at = [&](const Step& step) -> std::optional<Time> {
    Time ready = now;
    for (const auto& before : step.after) {
      const auto found = ends.find(before);
      if (found == ends.end()) return std::nullopt;
      ready = std::max(ready, found->second);
    }
    return ready;
  };
  while (ends.size() < pipeline.steps.size()) {
    const Time free = *std::ranges::min_element(places);
    const Step* first = nullptr;
    Time begin = 0;
    for (const Step& step : pipeline.steps) {
      const auto ready = ends.contains(step.name) ? std::nullopt : ready_at(step);
      if (!ready || (first != nullptr && std::max(free, *ready) >= begin)) continue;
      first = &step;
      begin = std::max(free, *ready);
    }
    ends[first->name] = take_place(begin, usual_time(first->name));
  }
  Forecast found{.end = now, .last = {}};
  for (const auto& [name, end] : ends) {
    if (end <= found.end) continue;
    found = {.end = end, .last = name};
  }
  return found;
}

std::optional<std::string> lateness(const Pipeline& pipeline, const RunRecord& run,
                                    const Usual& usual, Time now) {
  if (!run.deadline) return std::nullopt;
  const Time deadline = *run.deadline;
  const Forecast seen = forecast(pipeline, run, usual, now);
  if (seen.end <= deadline) return std::nullopt;
  if (now > deadline)
    return fmt::format("{}: LATE: the deadline, {}, has passed", pipeline.name, to_text(deadline));
  const auto takes = usual.find(seen.last);
  return fmt::format(
      "{}: WILL BE LATE: expected to be over at {}, {} after the deadline, {} (the last step is "
      "{}, "
      "which usually takes {})",
      pipeline.name, to_text(seen.end), format_seconds(static_cast<double>(seen.end - deadline)),
      to_text(deadline), seen.last, format_seconds(takes == usual.end() ? 0 : takes->second));
}

}  // namespace sullae::pipeline
