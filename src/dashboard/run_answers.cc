#include "dashboard/run_answers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <ctime>
#include <functional>
#include <limits>
#include <set>
#include <span>
#include <sstream>
#include <utility>

#include "base/ascii.h"
#include "base/host.h"
#include "base/request_error.h"
#include "dashboard/run_state.h"
#include "http/query.h"
#include "runs/sample.h"

namespace sullae::dashboard {
namespace {

using nlohmann::json;

constexpr std::size_t kMostRunsOfAChart = 100;
constexpr std::int64_t kMostPoints = 20000;  // of a curve
constexpr std::size_t kMostPointsInAll = 300'000;
constexpr std::size_t kMostTags = 500;
constexpr std::int64_t kMostRows = 1000;

struct Row {
  std::string name;
  const Run* run = nullptr;
  RunState state;
  double seconds = 0;  // that it has taken
};

Row row_of(const std::string& name, const Run& run, const ClusterState* cluster,
           const std::string& host) {
  Row row{.name = name, .run = &run, .state = state_of(run, cluster, host)};
  const double end = row.state.is_over ? run.updated : static_cast<double>(std::time(nullptr));
  row.seconds = std::max(0.0, end - run.record.started);
  return row;
}

// NaN and what is infinite are texts: JSON has no such numbers.
json number(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity";
}

json row_json(const Row& row) {
  const auto& record = row.run->record;
  json latest = json::object();
  for (const auto& [tag, value] : record.latest) latest[tag] = number(value);
  return {{"id", row.name},
          {"name", record.name},
          {"state", row.state.text},
          {"reason", row.state.reason},
          {"over", row.state.is_over},
          {"started", record.started},
          {"updated", row.run->updated},
          {"seconds", row.seconds},
          {"step", record.step},
          {"steps", record.steps},
          {"ranks", record.ranks},
          {"host", record.host},
          {"job", record.job},
          {"latest", std::move(latest)}};
}

// All words are somewhere in what the run is called and was started with.
bool matches(const Row& row, const std::vector<std::string>& words) {
  if (words.empty()) return true;
  const auto& record = row.run->record;
  std::string text = row.name + '\n' + record.name + '\n' + record.job + '\n' + record.host + '\n' +
                     row.state.text;
  for (const auto& [key, value] : record.settings) text += '\n' + key + '=' + value;
  text = to_lower(text);
  return std::ranges::all_of(
      words, [&](const std::string& word) { return text.find(word) != std::string::npos; });
}

// Rows without a value come last, whichever way the others go.
void sort(std::vector<Row>& rows, const std::string& by, bool descending) {
  const auto text_of = [&](const Row& row) -> std::string {
    if (by == "name") return row.name;
    return by == "state" ? row.state.text : std::string();
  };
  const auto number_of = [&](const Row& row) -> double {
    const auto& record = row.run->record;
    if (by == "started") return record.started;
    if (by == "time") return row.seconds;
    if (by == "step") return static_cast<double>(record.step);
    const auto found = record.latest.find(by);
    return found == record.latest.end() ? std::nan("") : found->second;
  };
  const bool by_text = by == "name" || by == "state";
  std::ranges::stable_sort(rows, [&](const Row& a, const Row& b) {
    if (by_text) return descending ? text_of(a) > text_of(b) : text_of(a) < text_of(b);
    const double x = number_of(a);
    const double y = number_of(b);
    if (std::isnan(x) || std::isnan(y)) return !std::isnan(x) && std::isnan(y);
    return descending ? x > y : x < y;
  });
}

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  std::istringstream stream(to_lower(text));
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

const Run& find_run(const Contents& contents, const std::string& name) {
  const auto found = contents.runs.find(name);
  if (found == contents.runs.end())
    throw RequestError(Refusal::not_found, fmt::format("there is no run '{}'", name));
  return *found->second;
}

std::string needed(const std::string& query, const std::string& name) {
  if (auto text = http::text_of(query, name)) return *std::move(text);
  refuse(fmt::format("expected {}=…", name));
}

// Reads the curves of a run; why that is not possible, as a list, where it is not: what else is
// known of it is shown then.
json look(Histories& histories, const Run& run,
          const std::function<void(const runs::History&)>& look) {
  try {
    histories.with(run.folder / runs::kMetricsFile, look);
  } catch (const Error& error) {
    return json::array({error.what()});
  }
  return json::array();
}

// Of the last moments since the run began, or went on: a night in between does not count. 0 where
// nothing is known.
double seconds_a_step(const runs::History& history) {
  constexpr std::size_t kMoments = 50;
  const auto& steps = history.steps();
  const std::size_t first =
      std::max(history.begun(), steps.size() > kMoments ? steps.size() - kMoments : 0);
  if (first + 1 >= steps.size()) return 0;
  const auto count = static_cast<double>(steps.back() - steps[first]);
  return count == 0 ? 0 : (history.times().back() - history.times()[first]) / count;
}

// What of a curve is drawn.
struct Stretch {
  bool over_time = false;
  std::int64_t from = 0;
  std::int64_t to = 0;
  std::size_t most = 0;
};

// Points of a column, few enough to draw.
json points_of(const runs::History& history, const runs::Column& column, const Stretch& stretch) {
  std::vector<double> x;
  x.reserve(column.rows.size());
  for (const auto row : column.rows)
    x.push_back(stretch.over_time ? history.times()[row] - history.times().front()
                                  : static_cast<double>(history.steps()[row]));
  // One more at each side, for lines that lead out of the picture.
  auto begin = std::ranges::lower_bound(x, static_cast<double>(stretch.from));
  auto end = std::ranges::upper_bound(x, static_cast<double>(stretch.to));
  if (begin != x.begin()) --begin;
  if (end != x.end()) ++end;
  const auto first = static_cast<std::size_t>(begin - x.begin());
  const auto count = static_cast<std::size_t>(std::max<std::ptrdiff_t>(end - begin, 0));
  json xs = json::array();
  json ys = json::array();
  for (const auto i : runs::sample(std::span(x).subspan(first, count),
                                   std::span(column.values).subspan(first, count), stretch.most)) {
    xs.push_back(std::round(x[first + i] * 1000) / 1000);
    ys.push_back(number(column.values[first + i]));
  }
  return {{"tag", column.tag},
          {"points", column.rows.size()},
          {"x", std::move(xs)},
          {"y", std::move(ys)}};
}

}  // namespace

json list_runs(const Contents& contents, const ClusterState* cluster, const std::string& query) {
  const auto host = host_name();
  const auto words = words_of(http::text_of(query, "search").value_or(""));
  const auto state = http::text_of(query, "state").value_or("");
  std::map<std::string, int> states;
  std::set<std::string> tags;
  std::vector<Row> rows;
  for (const auto& [name, run] : contents.runs) {
    Row row = row_of(name, *run, cluster, host);
    if (!matches(row, words)) continue;
    ++states[row.state.text];
    if (!state.empty() && row.state.text != state) continue;
    for (const auto& [tag, value] : run->record.latest) tags.insert(tag);
    rows.push_back(std::move(row));
  }
  sort(rows, http::text_of(query, "sort").value_or("started"),
       http::number_of(query, "descending", 1) != 0);
  const auto offset = static_cast<std::size_t>(http::number_of(query, "offset", 0));
  const auto limit =
      static_cast<std::size_t>(std::min(http::number_of(query, "limit", 100), kMostRows));
  json shown = json::array();
  for (std::size_t i = offset; i < rows.size() && i - offset < limit; ++i)
    shown.push_back(row_json(rows[i]));
  return {{"total", contents.runs.size()},
          {"matching", rows.size()},
          {"states", states},
          {"tags", tags},
          {"runs", std::move(shown)}};
}

json show_run(const Contents& contents, const ClusterState* cluster, Histories& histories,
              const std::string& query) {
  const auto name = needed(query, "id");
  const Run& run = find_run(contents, name);
  json shown = row_json(row_of(name, run, cluster, host_name()));
  shown["folder"] = run.folder.string();
  shown["settings"] = run.record.settings;
  shown["pid"] = run.record.pid;
  shown["tags"] = json::array();
  shown["notes"] = json::array();
  shown["damaged"] = 0;
  shown["seconds_a_step"] = 0;
  shown["problems"] = look(histories, run, [&](const runs::History& history) {
    json tags = json::array();
    for (const auto& column : history.columns()) {
      if (!column.rows.empty())
        tags.push_back({{"tag", column.tag},
                        {"points", column.rows.size()},
                        {"last", number(column.values.back())}});
    }
    json notes = json::array();
    for (const auto& note : history.notes())
      notes.push_back({{"time", note.time}, {"step", note.step}, {"text", note.text}});
    shown["tags"] = std::move(tags);
    shown["notes"] = std::move(notes);
    shown["damaged"] = history.damaged();
    shown["seconds_a_step"] = seconds_a_step(history);
  });
  return shown;
}

json curves(const Contents& contents, Histories& histories, const std::string& query) {
  const auto names = http::texts_of(query, "run");
  const auto tags = http::texts_of(query, "tag");
  if (names.empty() || tags.empty()) refuse("expected run=… and tag=…, each once or more often");
  if (names.size() > kMostRunsOfAChart)
    throw RequestError(Refusal::too_large,
                       fmt::format("expected at most {} runs", kMostRunsOfAChart));
  if (tags.size() > kMostTags)
    throw RequestError(Refusal::too_large, fmt::format("expected at most {} tags", kMostTags));
  const auto over = http::text_of(query, "x").value_or("step");
  if (over != "step" && over != "time") refuse(fmt::format("x={}: expected step or time", over));
  const Stretch stretch{
      .over_time = over == "time",
      .from = http::number_of(query, "from", 0),
      .to = http::number_of(query, "to", std::numeric_limits<std::int64_t>::max()),
      .most = static_cast<std::size_t>(
          std::min({http::number_of(query, "points", 1000), kMostPoints,
                    static_cast<std::int64_t>(kMostPointsInAll / (names.size() * tags.size()))}))};
  json shown = json::array();
  for (const auto& name : names) {
    const auto place = contents.runs.find(name);
    if (place == contents.runs.end()) {
      shown.push_back({{"id", name},
                       {"name", ""},
                       {"curves", json::array()},
                       {"problems", {fmt::format("there is no run '{}'", name)}}});
      continue;
    }
    const Run& run = *place->second;
    json found = json::array();
    json problems = look(histories, run, [&](const runs::History& history) {
      for (const auto& tag : tags) {
        const auto* const column = history.find(tag);
        if (column != nullptr) found.push_back(points_of(history, *column, stretch));
      }
    });
    shown.push_back({{"id", name},
                     {"name", run.record.name},
                     {"curves", std::move(found)},
                     {"problems", std::move(problems)}});
  }
  return {{"x", over}, {"runs", std::move(shown)}};
}

}  // namespace sullae::dashboard
