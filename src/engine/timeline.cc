#include "engine/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/log.h"
#include "collective/gather_texts.h"
#include "sullae/error.h"

namespace sullae::engine {
namespace {

constexpr const char* kLaneNames[] = {"training", "blocking", "planned", "negotiated"};

double microseconds(Timeline::Clock::duration duration) {
  return std::chrono::duration<double, std::micro>(duration).count();
}

}  // namespace

std::string phase_of(Operation operation) {
  std::string phase(name(operation));
  std::ranges::transform(phase, phase.begin(), [](char letter) {
    return letter >= 'a' && letter <= 'z' ? static_cast<char>(letter - 'a' + 'A') : letter;
  });
  return phase;
}

void Timeline::record(Event event) {
  const std::lock_guard lock(mutex_);
  if (on()) events_.push_back(std::move(event));
}

void Timeline::start(Communicator& communicator, std::filesystem::path file) {
  {
    const std::lock_guard lock(mutex_);
    if (on()) throw InputError(fmt::format("the timeline is already on, for {}", file_.string()));
  }
  std::string problem;
  try {
    if (communicator.rank() == 0) const AtomicFile trial(file);
  } catch (const Error& error) {
    problem = error.what();
  }
  problem = gather_texts(communicator, problem)[0];
  if (!problem.empty()) throw Error(problem);
  const std::lock_guard lock(mutex_);
  events_.clear();
  file_ = std::move(file);
  origin_ = Clock::now();
  on_ = true;
}

void Timeline::stop(Communicator& communicator, const std::vector<int>& world_ranks) {
  std::string mine;
  std::filesystem::path file;
  const int rank = communicator.rank();
  {
    const std::lock_guard lock(mutex_);
    if (!on()) return;
    on_ = false;
    mine = to_json(world_ranks[static_cast<std::size_t>(rank)]);
    events_.clear();
    file = file_;
  }
  std::vector<std::string> parts{mine};
  try {
    parts = gather_texts(communicator, mine);
  } catch (const Error& error) {
    if (rank == 0) log::warning("{} holds rank 0's events alone: {}", file.string(), error.what());
  }
  if (rank != 0) return;
  write_file(file, fmt::format("{{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n{}\n]}}\n",
                               fmt::join(parts, ",\n")));
}

// A process a rank, a thread a lane.
std::string Timeline::to_json(int rank) const {
  std::vector<std::string> lines;
  const auto name_of = [&](const char* what, int lane, const std::string& name) {
    lines.push_back(nlohmann::json{
        {"ph", "M"}, {"name", what}, {"pid", rank}, {"tid", lane}, {"args", {{"name", name}}}}
                        .dump());
  };
  name_of("process_name", 0, fmt::format("rank {}", rank));
  for (int lane = 0; lane < 4; ++lane) name_of("thread_name", lane, kLaneNames[lane]);
  for (const Event& event : events_) {
    lines.push_back(nlohmann::json{{"ph", "X"},
                                   {"name", event.phase},
                                   {"cat", kLaneNames[static_cast<int>(event.lane)]},
                                   {"pid", rank},
                                   {"tid", static_cast<int>(event.lane)},
                                   {"ts", microseconds(event.start - origin_)},
                                   {"dur", microseconds(event.end - event.start)},
                                   {"args", {{"name", event.name}, {"bytes", event.bytes}}}}
                        .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  }
  return fmt::format("{}", fmt::join(lines, ",\n"));
}

}  // namespace sullae::engine
