#include "train/monitor/report.h"

#include <fmt/format.h>

#include <cstddef>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/dump_json.h"
#include "base/file.h"
#include "base/json_message.h"
#include "base/rounded.h"
#include "sullae/error.h"
#include "train/evaluation.h"
#include "train/monitor/metrics_json.h"

namespace sullae::train {

using nlohmann::json;

// Fields by the library's own macros, and metrics by theirs.
#define SULLAE_EPOCH_FIELDS(way) \
  NLOHMANN_JSON_EXPAND(          \
      NLOHMANN_JSON_PASTE(way, epoch, lr, train_loss, test_loss, samples_per_second, seconds))
#define SULLAE_REPORT_FIELDS(way)                                                                \
  NLOHMANN_JSON_EXPAND(NLOHMANN_JSON_PASTE(                                                      \
      way, recipe, data, world_size, threads, epochs, batch_size, steps, parameters, train_loss, \
      test_loss, samples_per_second, seconds, checkpoint, waiting_for_data, waiting_for_ranks,   \
      skipped_steps, damaged_records, scale_up, configuration, history))

static void to_json(json& nlohmann_json_j, const EpochReport& nlohmann_json_t) {
  SULLAE_EPOCH_FIELDS(NLOHMANN_JSON_TO)
  put_test_metrics(nlohmann_json_j, nlohmann_json_t.test_metrics);
}
static void from_json(const json& nlohmann_json_j, EpochReport& nlohmann_json_t) {
  SULLAE_EPOCH_FIELDS(NLOHMANN_JSON_FROM)
  nlohmann_json_t.test_metrics = test_metrics_in(nlohmann_json_j);
}

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(WorldChange, step, ranks, pause, reason)

static void to_json(json& nlohmann_json_j, const Report& nlohmann_json_t) {
  SULLAE_REPORT_FIELDS(NLOHMANN_JSON_TO)
  put_test_metrics(nlohmann_json_j, nlohmann_json_t.test_metrics);
  nlohmann_json_j["tested"] = nlohmann_json_t.tested;
  nlohmann_json_j["peak_memory"] = nlohmann_json_t.peak_memory;
  nlohmann_json_j["world_changes"] = nlohmann_json_t.world_changes;
  nlohmann_json_j["metrics"] = nlohmann_json_t.metrics;
}
static void from_json(const json& nlohmann_json_j, Report& nlohmann_json_t) {
  SULLAE_REPORT_FIELDS(NLOHMANN_JSON_FROM)
  nlohmann_json_t.test_metrics = test_metrics_in(nlohmann_json_j);
  nlohmann_json_t.tested = nlohmann_json_j.value("tested", true);
  nlohmann_json_t.peak_memory = nlohmann_json_j.value("peak_memory", std::int64_t{0});
  nlohmann_json_t.world_changes =
      nlohmann_json_j.value("world_changes", std::vector<WorldChange>());
  // Once there was no other.
  const std::vector<Metric> accuracy = {{.name = "accuracy", .in_percent = true}};
  nlohmann_json_t.metrics = nlohmann_json_j.value("metrics", accuracy);
}

std::string to_text(const std::vector<EpochReport>& history) { return dump_json(json(history)); }
std::vector<EpochReport> history_of(const std::string& text) {
  return parse_measured(text).get<std::vector<EpochReport>>();
}

std::string to_text(const std::vector<WorldChange>& changes) { return dump_json(json(changes)); }
std::vector<WorldChange> world_changes_of(const std::string& text) {
  return json::parse(text).get<std::vector<WorldChange>>();
}

void Report::write(const std::filesystem::path& file) const {
  Report report = *this;
  for (double* measured : {&report.seconds, &report.samples_per_second, &report.waiting_for_data,
                           &report.waiting_for_ranks})
    *measured = rounded(*measured);
  for (EpochReport& epoch : report.history) {
    epoch.seconds = rounded(epoch.seconds);
    epoch.samples_per_second = rounded(epoch.samples_per_second);
  }
  write_file(file, dump_json(nlohmann::json(report), 2) + "\n");
}

Report Report::read(const std::filesystem::path& file) {
  constexpr std::size_t kMostBytes = std::size_t{64} << 20;
  std::istringstream stream(read_file(file, kMostBytes));
  try {
    return parse_measured(stream).get<Report>();
  } catch (const nlohmann::json::exception& error) {
    throw InputError(fmt::format("report {}: is not a report of sullae train: {}", file.string(),
                                 json_message(error)));
  }
}

std::string format_measured(const Metric& metric, const std::map<std::string, double>& measured) {
  const auto found = measured.find(metric.name);
  return found == measured.end() ? "" : format_metric(metric, found->second);
}

std::string format_test_metric(const Metric& metric, const Report& report) {
  return format_measured(metric, report.test_metrics);
}

std::string format_memory(const Report& report) {
  return report.peak_memory == 0 ? "" : fmt::format("{} MB", report.peak_memory / 1'000'000);
}

std::string format_table(const std::vector<Report>& reports) {
  const Report& base = reports.front();
  struct Row {
    std::string title;
    std::function<std::string(const Report&)> cell;
  };
  std::vector<Row> rows = {
      {"ranks",
       [](const Report& r) {
         return fmt::format("{}", r.world_size);
       }},
      {"threads a rank",
       [](const Report& r) {
         return fmt::format("{}", r.threads);
       }},
      {"epochs",
       [](const Report& r) {
         return fmt::format("{}", r.epochs);
       }},
  };
  for (const Metric& metric : base.metrics)
    rows.push_back({"test " + metric.name, [&metric](const Report& r) {
                      return format_test_metric(metric, r);
                    }});
  rows.push_back({"samples/s", [](const Report& r) {
                    return fmt::format("{:.0f}", r.samples_per_second);
                  }});
  if (reports.size() > 1) {
    rows.push_back({"speedup", [&](const Report& r) {
                      return fmt::format("{:.2f} x",
                                         r.samples_per_second / base.samples_per_second);
                    }});
    rows.push_back({"scaling efficiency", [&](const Report& r) {
                      const double ideal = static_cast<double>(r.world_size) / base.world_size;
                      return fmt::format(
                          "{:.0f} %", 100 * r.samples_per_second / base.samples_per_second / ideal);
                    }});
  }
  rows.push_back({"time", [](const Report& r) {
                    return fmt::format("{:.1f} s", r.seconds);
                  }});
  std::string text = fmt::format("{} on {}\n\n", base.recipe, base.data);
  for (const Row& row : rows) {
    text += fmt::format("  {:<20}", row.title);
    for (const Report& report : reports) text += fmt::format("{:>14}", row.cell(report));
    text += '\n';
  }
  return text;
}

}  // namespace sullae::train
