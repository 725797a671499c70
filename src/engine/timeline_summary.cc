#include "engine/timeline_summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "sullae/error.h"

namespace sullae {
namespace {

constexpr std::size_t kSlowest = 10;

struct Event {
  int rank = 0;
  int world = 0;
  std::string lane;
  std::string phase;
  std::string name;
  double start = 0;
  double duration = 0;
};

std::vector<Event> read_events(const std::filesystem::path& file) {
  std::error_code error;
  if (std::filesystem::is_directory(file, error))
    throw InputError(fmt::format("timeline {}: is a folder, expected a file", file.string()));
  std::ifstream stream(file);
  if (!stream)
    throw InputError(fmt::format("timeline {}: cannot be opened: {}", file.string(),
                                 std::generic_category().message(errno)));
  std::vector<Event> events;
  try {
    const auto json = nlohmann::json::parse(stream);
    for (const auto& one : json.at("traceEvents")) {
      if (one.at("ph") != "X") continue;
      events.push_back({.rank = one.at("pid"),
                        .world = one.at("args").value("world", 0),
                        .lane = one.at("cat"),
                        .phase = one.at("name"),
                        .name = one.at("args").at("name"),
                        .start = one.at("ts"),
                        .duration = one.at("dur")});
    }
  } catch (const nlohmann::json::exception&) {
    throw InputError(fmt::format(
        "{}: is no timeline of Sullae's: expected a file that `sullae run --timeline FILE` wrote",
        file.string()));
  }
  return events;
}

// The events in which a rank comes to an operation, and waits for the others.
bool is_arrival(const Event& event) { return event.phase == "NEGOTIATE" || event.phase == "QUEUE"; }

void add_time(const Event& event, TimelineSummary::Rank& rank) {
  if (event.phase == "BACKWARD") rank.backward += event.duration;
  if (event.phase == "WAIT") rank.waiting += event.duration;
  if (event.phase == "PIPELINE") rank.stages += event.duration;
  if (event.phase == "PIPELINE_STEP") rank.pipeline += event.duration;
  if (is_arrival(event)) return;
  if (event.lane == "planned") rank.planned += event.duration;
  if (event.lane == "negotiated") rank.negotiated += event.duration;
  if (event.lane == "blocking") rank.blocking += event.duration;
}

// The k-th arrival at a name on one rank belongs to the k-th on every other of its world.
void compare_arrivals(const std::vector<Event>& events, TimelineSummary& summary) {
  std::map<std::tuple<std::string, std::string, int, int>, std::map<int, double>> meetings;
  std::map<std::tuple<std::string, std::string, int, int>, int> seen;
  std::map<int, std::set<int>> ranks;
  for (const Event& event : events) {
    if (!is_arrival(event)) continue;
    const int count = seen[{event.phase, event.name, event.world, event.rank}]++;
    meetings[{event.phase, event.name, event.world, count}][event.rank] = event.start;
    ranks[event.world].insert(event.rank);
  }
  for (const auto& [key, arrivals] : meetings) {
    if (arrivals.size() < ranks[std::get<2>(key)].size() || arrivals.size() < 2) continue;
    const auto last =
        std::ranges::max_element(arrivals, {}, [](const auto& arrival) { return arrival.second; });
    ++summary.meetings;
    ++summary.ranks[last->first].last;
    for (const auto& [rank, start] : arrivals) summary.ranks[rank].lost += last->second - start;
  }
}

void find_slowest(const std::vector<Event>& events, TimelineSummary& summary) {
  std::map<std::tuple<std::string, std::string, int>, std::pair<int, double>> totals;
  for (const Event& event : events) {
    if (event.lane == "training" || is_arrival(event) || event.name.empty()) continue;
    auto& [count, total] = totals[{event.phase, event.name, event.rank}];
    ++count;
    total += event.duration;
  }
  std::map<std::pair<std::string, std::string>, TimelineSummary::Tensor> tensors;
  for (const auto& [key, value] : totals) {
    const auto& [phase, name, rank] = key;
    auto& tensor = tensors[{phase, name}];
    if (value.second >= tensor.total) tensor = {phase, name, value.first, value.second};
  }
  for (auto& [key, tensor] : tensors) summary.slowest.push_back(std::move(tensor));
  std::ranges::stable_sort(summary.slowest, std::greater{}, &TimelineSummary::Tensor::total);
  if (summary.slowest.size() > kSlowest) summary.slowest.resize(kSlowest);
}

// Nothing where there was no pipeline.
std::string pipeline_lines(const TimelineSummary& summary) {
  std::string text;
  TimelineSummary::Rank all;
  for (const auto& [number, rank] : summary.ranks) {
    if (rank.pipeline <= 0) continue;
    text += fmt::format("{:>6}{:>12.1f}{:>12.1f}{:>9.0f}\n", number, rank.pipeline / 1e3,
                        rank.stages / 1e3, 100 * rank.bubble());
    all.pipeline += rank.pipeline;
    all.stages += rank.stages;
  }
  if (text.empty()) return text;
  return fmt::format("\n{:>6}{:>12}{:>12}{:>9}\n{:>6}{:>12}{:>12}{:>9}\n", "rank", "pipeline",
                     "stages", "bubble", "", "ms", "ms", "%") +
         text +
         fmt::format(
             "\npipeline: in its steps; stages: computing; bubble: the rest, {:.0f} % of all.\n",
             100 * all.bubble());
}

}  // namespace

double TimelineSummary::Rank::hidden() const {
  return planned <= 0 ? 0 : std::clamp(1 - waiting / planned, 0.0, 1.0);
}

double TimelineSummary::Rank::bubble() const {
  return pipeline <= 0 ? 0 : std::clamp(1 - stages / pipeline, 0.0, 1.0);
}

TimelineSummary summarize_timeline(const std::filesystem::path& file) {
  auto events = read_events(file);
  std::ranges::stable_sort(events, {}, &Event::start);
  TimelineSummary summary;
  for (const Event& event : events) add_time(event, summary.ranks[event.rank]);
  compare_arrivals(events, summary);
  find_slowest(events, summary);
  return summary;
}

std::string format_summary(const TimelineSummary& summary) {
  std::string text =
      fmt::format("{:>6}{:>12}{:>12}{:>12}{:>12}{:>12}{:>9}{:>8}{:>12}\n", "rank", "backward",
                  "gradients", "waiting", "engine", "blocking", "hidden", "last", "lost");
  text += fmt::format("{:>6}{:>12}{:>12}{:>12}{:>12}{:>12}{:>9}{:>8}{:>12}\n", "", "ms", "ms", "ms",
                      "ms", "ms", "%", "%", "ms");
  for (const auto& [number, rank] : summary.ranks) {
    text += fmt::format(
        "{:>6}{:>12.1f}{:>12.1f}{:>12.1f}{:>12.1f}{:>12.1f}{:>9.0f}{:>8.0f}{:>12.1f}\n", number,
        rank.backward / 1e3, rank.planned / 1e3, rank.waiting / 1e3, rank.negotiated / 1e3,
        rank.blocking / 1e3, 100 * rank.hidden(),
        summary.meetings > 0 ? 100.0 * rank.last / summary.meetings : 0.0, rank.lost / 1e3);
  }
  text +=
      "\ngradients: being reduced; waiting: for them, after backward; hidden: the share of their "
      "reduction behind backward;\nlast: how often the rank came last to an operation; lost: by "
      "waiting for ranks that came later.\n";
  text += pipeline_lines(summary);
  if (!summary.slowest.empty()) text += "\nslowest on any rank:\n";
  for (const auto& tensor : summary.slowest) {
    text += fmt::format("{:>12.1f} ms in {:>6} times  {}  {}\n", tensor.total / 1e3, tensor.count,
                        tensor.phase, tensor.name);
  }
  return text;
}

}  // namespace sullae
