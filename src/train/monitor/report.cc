#include "train/monitor/report.h"

#include <fmt/format.h>

#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/json_message.h"
#include "base/rounded.h"
#include "sullae/error.h"

namespace sullae::train {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(EpochReport, epoch, lr, train_loss, test_loss, test_accuracy,
                                   samples_per_second, seconds)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Report, recipe, data, world_size, threads, epochs, batch_size,
                                   steps, parameters, train_loss, test_loss, test_accuracy,
                                   samples_per_second, seconds, checkpoint, waiting_for_data,
                                   waiting_for_ranks, skipped_steps, damaged_records, scale_up,
                                   configuration, history)

void Report::write(const std::filesystem::path& file) const {
  Report report = *this;
  for (double* measured : {&report.seconds, &report.samples_per_second, &report.waiting_for_data,
                           &report.waiting_for_ranks})
    *measured = rounded(*measured);
  for (EpochReport& epoch : report.history) {
    epoch.seconds = rounded(epoch.seconds);
    epoch.samples_per_second = rounded(epoch.samples_per_second);
  }
  write_file(file, nlohmann::json(report).dump(2) + "\n");
}

Report Report::read(const std::filesystem::path& file) {
  std::ifstream stream(file);
  if (!stream) throw InputError(fmt::format("report {}: cannot be read", file.string()));
  try {
    return nlohmann::json::parse(stream).get<Report>();
  } catch (const nlohmann::json::exception& error) {
    throw InputError(fmt::format("report {}: is not a report of sullae train: {}", file.string(),
                                 json_message(error)));
  }
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
      {"test accuracy",
       [](const Report& r) {
         return fmt::format("{:.2f} %", 100 * r.test_accuracy);
       }},
      {"samples/s",
       [](const Report& r) {
         return fmt::format("{:.0f}", r.samples_per_second);
       }},
  };
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
