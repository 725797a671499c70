#include "train/monitor/report_page.h"

#include <fmt/format.h>

#include <functional>
#include <optional>

#include "base/best_effort.h"
#include "base/counted.h"
#include "base/file.h"
#include "train/evaluation.h"
#include "train/monitor/plot.h"
#include "train/monitor/progress.h"

namespace sullae::train {
namespace {

constexpr const char* kStyle = R"(
:root { --c0:#1f6feb; --c1:#d1570b; --c2:#1a7f37; --c3:#8250df; --c4:#bf3989; --c5:#7d6608;
        --ink:#1c2128; --soft:#5b6470; --line:#d8dee4; --back:#ffffff; --card:#f6f8fa; }
@media (prefers-color-scheme: dark) {
  :root { --c0:#6cb2ff; --c1:#ff9a52; --c2:#56d364; --c3:#c297ff; --c4:#ff8ac4; --c5:#e3c64b;
          --ink:#e6edf3; --soft:#9da7b3; --line:#30363d; --back:#0d1117; --card:#161b22; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--back);
       max-width: 1200px; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin-bottom: .2rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
p { color: var(--soft); margin-top: 0; }
table { border-collapse: collapse; } td, th { padding: .25rem .9rem .25rem 0; text-align: right;
       border-bottom: 1px solid var(--line); } td:first-child, th:first-child { text-align: left; }
.scroll { overflow-x: auto; margin-bottom: 1.5rem; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(380px, 1fr)); gap: 1rem; }
.plots svg { width: 100%; background: var(--card); border-radius: 8px; }
svg text { fill: var(--ink); font: 12px system-ui, sans-serif; }
svg .title { font-weight: 600; font-size: 14px; } svg .mark { fill: var(--soft); }
svg .grid { stroke: var(--line); }
pre { background: var(--card); padding: 1rem; border-radius: 8px; overflow-x: auto; }
)";

std::string name_of(const Report& report) {
  std::string name = counted(report.world_size, "rank");
  if (report.scale_up > 1) name += fmt::format(" x {} replicas", report.scale_up);
  return name;
}

using Value = std::function<double(const EpochReport&)>;

Curve curve(const Report& report, std::string name, const Value& value, bool dashed = false) {
  Curve result{.name = std::move(name), .x = {}, .y = {}, .dashed = dashed};
  for (const EpochReport& epoch : report.history) {
    result.x.push_back(epoch.epoch);
    result.y.push_back(value(epoch));
  }
  return result;
}

// The metric that the best checkpoint is chosen by.
std::optional<Metric> main_metric(const Report& report) {
  return report.metrics.empty() ? std::nullopt : std::optional(report.metrics.front());
}

double shown(const Metric& metric, const auto& of) {
  const auto found = of.test_metrics.find(metric.name);
  const double value = found == of.test_metrics.end() ? 0 : found->second;
  return metric.in_percent ? 100 * value : value;
}

std::string metric_plots(const Metric& metric, const std::vector<Curve>& by_epoch,
                         const std::vector<Curve>& over_time) {
  const char* const unit = metric.in_percent ? "%" : "";
  return plot(by_epoch, {"Test " + metric.name, "epoch", unit}) +
         plot(over_time, {.title = "Test " + metric.name + " over time",
                          .x_label = "seconds",
                          .y_label = unit});
}

std::string plots(const std::vector<Report>& reports) {
  const auto main = main_metric(reports.front());
  std::vector<Curve> losses;
  std::vector<Curve> metrics;
  std::vector<Curve> speeds;
  std::vector<Curve> rates;
  std::vector<Curve> over_time;
  for (const Report& report : reports) {
    const std::string prefix = reports.size() > 1 ? name_of(report) + ", " : "";
    losses.push_back(
        curve(report, prefix + "training", [](const auto& e) { return e.train_loss; }));
    if (report.tested) {
      losses.push_back(curve(
          report, prefix + "test", [](const auto& e) { return e.test_loss; }, true));
    }
    const std::string name = reports.size() > 1 ? name_of(report) : "test";
    if (main) {
      metrics.push_back(curve(report, name, [&](const auto& e) { return shown(*main, e); }));
      over_time.push_back(metrics.back());
      for (std::size_t i = 0; i < report.history.size(); ++i)
        over_time.back().x[i] = report.history[i].seconds;
    }
    speeds.push_back(
        curve(report, name_of(report), [](const auto& e) { return e.samples_per_second; }));
    rates.push_back(curve(report, name_of(report), [](const auto& e) { return e.lr; }));
  }
  return plot(losses, {"Loss", "epoch", ""}) +
         (main ? metric_plots(*main, metrics, over_time) : "") +
         plot(speeds, {"Throughput", "epoch", "samples/s", true}) +
         plot(rates, {"Learning rate at the end of the epoch", "epoch", "", true});
}

struct Row {
  std::string title;
  std::function<std::string(const Report&)> cell;
};

std::string percent(double part) { return fmt::format("{:.2f} %", 100 * part); }

// A field as it is.
Row row_of(const char* title, auto Report::*field) {
  return {title, [field](const Report& r) {
            return fmt::format("{}", r.*field);
          }};
}
Row row_of_part(const char* title, double Report::*field) {
  return {title, [field](const Report& r) {
            return percent(r.*field);
          }};
}

std::vector<Row> rows_of_all() {
  return {row_of("ranks", &Report::world_size),
          row_of("replicas in each", &Report::scale_up),
          row_of("threads a rank", &Report::threads),
          row_of("parameters", &Report::parameters),
          row_of("samples a step", &Report::batch_size),
          row_of("epochs", &Report::epochs),
          row_of("steps", &Report::steps),
          {"test loss",
           [](const Report& r) {
             return r.tested ? fmt::format("{:.4f}", r.test_loss) : "";
           }},
          {"samples/s",
           [](const Report& r) {
             return fmt::format("{:.0f}", r.samples_per_second);
           }},
          row_of_part("waiting for data", &Report::waiting_for_data),
          row_of_part("waiting for ranks", &Report::waiting_for_ranks),
          row_of("skipped steps", &Report::skipped_steps),
          row_of("damaged records", &Report::damaged_records),
          {"memory of a rank", format_memory},
          {"time", [](const Report& r) {
             return format_duration(r.seconds);
           }}};
}

std::string summary(const std::vector<Report>& reports) {
  auto rows = rows_of_all();
  const Report& first = reports.front();
  for (const Metric& metric : first.metrics)
    rows.push_back({"test " + metric.name, [&metric](const Report& r) {
                      return format_test_metric(metric, r);
                    }});
  if (reports.size() > 1) {
    rows.push_back({"scaling efficiency", [&first](const Report& r) {
                      const double ideal = static_cast<double>(r.world_size) * r.scale_up /
                                           (first.world_size * first.scale_up);
                      return percent(r.samples_per_second / first.samples_per_second / ideal);
                    }});
  }
  std::string html = "<div class=\"scroll\"><table>\n";
  for (const Row& row : rows) {
    html += fmt::format("<tr><td>{}</td>", row.title);
    for (const Report& report : reports) html += fmt::format("<td>{}</td>", row.cell(report));
    html += "</tr>\n";
  }
  return html + "</table></div>\n";
}

std::string epochs_table(const Report& report) {
  std::string html =
      "<div class=\"scroll\"><table><tr><th>epoch</th><th>learning rate</th><th>training loss</th>"
      "<th>test loss</th>";
  for (const Metric& metric : report.metrics) html += "<th>test " + metric.name + "</th>";
  html += "<th>samples/s</th><th>time</th></tr>\n";
  for (const EpochReport& e : report.history) {
    html += fmt::format("<tr><td>{}</td><td>{:.3g}</td><td>{:.4f}</td><td>{}</td>", e.epoch, e.lr,
                        e.train_loss, report.tested ? fmt::format("{:.4f}", e.test_loss) : "");
    for (const Metric& metric : report.metrics)
      html += fmt::format("<td>{}</td>", format_measured(metric, e.test_metrics));
    html += fmt::format("<td>{:.0f}</td><td>{}</td></tr>\n", e.samples_per_second,
                        format_duration(e.seconds));
  }
  return html + "</table></div>\n";
}

std::string changes_table(const Report& report) {
  if (report.world_changes.empty()) return {};
  std::string html =
      "<h2>Ranks that came and went</h2>\n<div class=\"scroll\"><table><tr><th>after "
      "step</th><th>ranks</th>"
      "<th>pause</th><th>why</th></tr>\n";
  for (const WorldChange& change : report.world_changes) {
    html += fmt::format("<tr><td>{}</td><td>{}</td><td>{:.2f} s</td><td>{}</td></tr>\n",
                        change.step, change.ranks, change.pause, escape_html(change.reason));
  }
  return html + "</table></div>\n";
}

std::string head(const std::string& title, const std::string& subtitle) {
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">"
      "<title>{0} - Sullae</title><style>{1}</style></head><body>\n<h1>{0}</h1>\n<p>{2}</p>\n",
      escape_html(title), kStyle, escape_html(subtitle));
}

// A curve a way of scaling.
std::string scaling_plot(const std::vector<ScalingPoint>& points, const PlotOptions& options,
                         const std::function<double(const ScalingPoint&)>& value, bool ideal) {
  std::vector<Curve> curves;
  for (const char* way : {"scale-up", "scale-out"}) {
    Curve curve{.name = way, .x = {}, .y = {}};
    for (const ScalingPoint& point : points) {
      if (point.way != way) continue;
      curve.x.push_back(point.workers);
      curve.y.push_back(value(point));
    }
    if (!curve.x.empty()) curves.push_back(std::move(curve));
  }
  if (ideal) {
    Curve line{.name = "ideal", .x = curves.front().x, .y = {}, .dashed = true};
    for (const double workers : line.x) line.y.push_back(workers / line.x.front());
    curves.push_back(std::move(line));
  }
  return plot(curves, options);
}

}  // namespace

const char* page_style() { return kStyle; }

void write_scaling_page(const std::filesystem::path& file,
                        const std::vector<ScalingPoint>& points) {
  const Report& first = points.front().report;
  std::string html = head("Scaling of " + first.recipe, first.data);
  const auto main = main_metric(first);
  html += fmt::format(
      "<div class=\"scroll\"><table><tr><th>way</th><th>workers</th><th>time</th>"
      "<th>test {}</th><th>samples/s</th><th>speedup</th><th>efficiency</th></tr>\n",
      main ? main->name : "loss");
  for (const ScalingPoint& p : points) {
    html += fmt::format(
        "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{:.0f}</td><td>{:.2f} x</td>"
        "<td>{:.0f} %</td></tr>\n",
        p.way, p.workers, format_duration(p.report.seconds),
        main ? format_test_metric(*main, p.report) : fmt::format("{:.4f}", p.report.test_loss),
        p.report.samples_per_second, p.speedup, 100 * p.efficiency);
  }
  html += "</table></div>\n<div class=\"plots\">\n";
  html += scaling_plot(
      points, {"Speedup", "workers", "x", true}, [](const auto& p) { return p.speedup; }, true);
  html += scaling_plot(
      points, {"Efficiency", "workers", "%", true},
      [](const auto& p) { return 100 * p.efficiency; }, false);
  html += scaling_plot(
      points, {"Time", "workers", "seconds", true}, [](const auto& p) { return p.report.seconds; },
      false);
  if (main) {
    html += scaling_plot(
        points, {"Test " + main->name, "workers", main->in_percent ? "%" : ""},
        [&](const auto& p) { return shown(*main, p.report); }, false);
  }
  write_file(file, html + "</div>\n</body></html>\n");
}

void ReportFiles::ended(const Report& report) {
  BestEffort("--report", "what follows").run([&] {
    report.write(file_);
    auto page = file_;
    write_report_page(page.replace_extension(".html"), {report});
  });
}

void write_report_page(const std::filesystem::path& file, const std::vector<Report>& reports) {
  const Report& first = reports.front();
  std::string html = head(first.recipe, first.data) + summary(reports) + "<div class=\"plots\">\n" +
                     plots(reports) + "</div>\n";
  for (const Report& report : reports)
    html += fmt::format("<h2>Epochs, {}</h2>\n{}{}", name_of(report), epochs_table(report),
                        changes_table(report));
  if (!first.configuration.empty())
    html += "<h2>Configuration</h2>\n<pre>" + escape_html(first.configuration) + "</pre>\n";
  write_file(file, html + "</body></html>\n");
}

}  // namespace sullae::train
