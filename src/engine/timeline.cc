#include "engine/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "base/dump_json.h"
#include "base/file.h"
#include "base/log.h"
#include "collective/allgather_texts.h"
#include "sullae/error.h"

namespace sullae::engine {
namespace {

constexpr const char* kLaneNames[] = {"training", "blocking", "planned", "negotiated"};

constexpr std::string_view kEnd = "\n]}\n";

double microseconds(Timeline::Clock::duration duration) {
  return std::chrono::duration<double, std::micro>(duration).count();
}

// Microseconds since 1970.
std::int64_t clock_of_day(Timeline::Clock::time_point time) {
  const auto then = std::chrono::system_clock::now() - (Timeline::Clock::now() - time);
  return std::chrono::duration_cast<std::chrono::microseconds>(then.time_since_epoch()).count();
}

// When the file begins, in microseconds since 1970, where worlds before this one of the same job
// have written it. What it is about stands in its first line.
std::optional<std::int64_t> begin_of(const Timeline::Place& place) {
  std::error_code error;
  if (place.goes_on_of.empty() || place.world == 0 ||
      !std::filesystem::is_regular_file(place.file, error))
    return std::nullopt;
  std::ifstream stream(place.file);
  std::string head;
  std::getline(stream, head);
  const auto json = nlohmann::json::parse(head + "]}", nullptr, /*allow_exceptions=*/false);
  const nlohmann::json::json_pointer job("/otherData/job");
  const nlohmann::json::json_pointer begin("/otherData/begin_us");
  if (!json.is_object() || !json.contains(job) || json[job] != place.goes_on_of ||
      !json.contains(begin) || !json[begin].is_number_integer())
    return std::nullopt;
  return json[begin].get<std::int64_t>();
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
  if (!on()) return;
  if (events_.size() >= kMostEvents) {
    ++left_out_;
    return;
  }
  event.rank = place_.rank;
  event.world = place_.world;
  events_.push_back(std::move(event));
}

void Timeline::suspend() {
  const std::lock_guard lock(mutex_);
  on_ = false;
}

void Timeline::take_over(Timeline& before) {
  std::vector<Event> events;
  {
    const std::lock_guard lock(before.mutex_);
    events = std::exchange(before.events_, {});
  }
  const std::lock_guard lock(mutex_);
  if (on()) std::ranges::move(events, std::back_inserter(events_));
}

void Timeline::start(Communicator& communicator, Place place) {
  {
    const std::lock_guard lock(mutex_);
    if (on())
      throw InputError(fmt::format("the timeline is already on, for {}", place.file.string()));
  }
  nlohmann::json said;
  try {
    if (communicator.rank() == 0) {
      const AtomicFile trial(place.file);
      const std::int64_t now = clock_of_day(Clock::now());
      said["since"] = std::max<std::int64_t>(now - begin_of(place).value_or(now), 0);
    }
  } catch (const Error& error) {
    said["problem"] = error.what();
  }
  said = nlohmann::json::parse(allgather_texts(communicator, said.dump())[0]);
  if (said.contains("problem")) throw Error(said["problem"].get<std::string>());
  const std::lock_guard lock(mutex_);
  events_.clear();
  place_ = std::move(place);
  origin_ = Clock::now() - std::chrono::microseconds(said["since"].get<std::int64_t>());
  on_ = true;
}

void Timeline::stop(Communicator& communicator) {
  std::string mine;
  Place place;
  Clock::time_point origin;
  {
    const std::lock_guard lock(mutex_);
    if (!on()) return;
    on_ = false;
    mine = to_json();
    if (left_out_ > 0)
      log::warning("{}: holds this rank's first {} events; {} more were left out",
                   place_.file.string(), events_.size(), std::exchange(left_out_, 0));
    events_.clear();
    place = place_;
    origin = origin_;
  }
  std::vector<std::string> parts{mine};
  try {
    parts = allgather_texts(communicator, mine);
  } catch (const Error& error) {
    if (communicator.rank() == 0)
      log::warning("{} holds rank 0's events alone: {}", place.file.string(), error.what());
  }
  if (communicator.rank() != 0) return;
  std::erase(parts, "");
  std::string text;
  if (begin_of(place)) text = read_file(place.file, std::numeric_limits<std::size_t>::max());
  if (!text.ends_with(kEnd)) {
    const nlohmann::json about = {{"job", place.goes_on_of}, {"begin_us", clock_of_day(origin)}};
    text = fmt::format("{{\"displayTimeUnit\": \"ms\", \"otherData\": {}, \"traceEvents\": [",
                       about.dump());
  } else {
    text.resize(text.size() - kEnd.size());
    text += parts.empty() ? "" : ",";
  }
  write_file(place.file, fmt::format("{}\n{}{}", text, fmt::join(parts, ",\n"), kEnd));
}

// A process a rank, a thread a lane.
std::string Timeline::to_json() const {
  std::vector<std::string> lines;
  const auto name_of = [&](const char* what, int rank, int lane, const std::string& name) {
    lines.push_back(nlohmann::json{
        {"ph", "M"}, {"name", what}, {"pid", rank}, {"tid", lane}, {"args", {{"name", name}}}}
                        .dump());
  };
  std::set<int> ranks{place_.rank};
  for (const Event& event : events_) ranks.insert(event.rank);
  for (const int rank : ranks) {
    name_of("process_name", rank, 0, fmt::format("rank {}", rank));
    for (int lane = 0; lane < 4; ++lane) name_of("thread_name", rank, lane, kLaneNames[lane]);
  }
  for (const Event& event : events_) {
    lines.push_back(dump_json(nlohmann::json{
        {"ph", "X"},
        {"name", event.phase},
        {"cat", kLaneNames[static_cast<int>(event.lane)]},
        {"pid", event.rank},
        {"tid", static_cast<int>(event.lane)},
        {"ts", microseconds(event.start - origin_)},
        {"dur", microseconds(event.end - event.start)},
        {"args", {{"name", event.name}, {"bytes", event.bytes}, {"world", event.world}}}}));
  }
  return fmt::format("{}", fmt::join(lines, ",\n"));
}

}  // namespace sullae::engine
