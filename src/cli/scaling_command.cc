#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "base/counted.h"
#include "base/file.h"
#include "base/rounded.h"
#include "cli/commands.h"
#include "cli/other_commands.h"
#include "cli/validators.h"
#include "launch/launcher.h"
#include "launch/remote_shell.h"
#include "sullae/error.h"
#include "train/monitor/progress.h"
#include "train/monitor/report_page.h"
#include "train/task.h"

namespace sullae::cli {
namespace {

using train::Report;

// Scale-up: one process with several replicas. Scale-out: several processes.
enum class Way { up, out };

const char* name_of(Way way) { return way == Way::up ? "scale-up" : "scale-out"; }

struct Trial {
  Way way;
  Report report;
};

class ScalingCommand final : public Command {
 public:
  CLI::App* declare(CLI::App& program) override {
    CLI::App* app = program.add_subcommand("scaling", description_of("scaling"));
    app->footer(
        "What follows the model goes to `sullae train`:\n"
        "  sullae scaling mnist --np 1,2,4 --output scaling.html --epochs 1");
    app->add_option("MODEL", model_, "A model of `sullae train`")->required();
    app->add_option("--np", numbers_, "Numbers of workers, separated by commas")
        ->capture_default_str()
        ->type_name("LIST");
    app->add_option("--way", way_, "up, out, or both")
        ->check(CLI::IsMember({"up", "out", "both"}))
        ->capture_default_str();
    app->add_option("--cpus-per-worker", cpus_,
                    "Processors of each worker; by default an equal share at the largest number")
        ->check(positive_integer())
        ->type_name("N");
    app->add_option("--output", output_, "A page with the table and plots; .json beside it")
        ->type_name("FILE.html");
    app->allow_extras();
    app_ = app;
    return app;
  }

  int run() override {
    check_model();
    train::require_writable(output_, "output");
    const auto numbers = parse_numbers();
    if (cpus_ == 0) {
      const int most = *std::ranges::max_element(numbers);
      cpus_ = std::max(1, static_cast<int>(std::thread::hardware_concurrency()) / most);
    }
    std::vector<Trial> trials;
    for (const Way way : {Way::up, Way::out}) {
      if (way_ != "both" && way_ != (way == Way::up ? "up" : "out")) continue;
      for (const int workers : numbers) {
        // One worker is the same either way.
        if (workers == 1 && !trials.empty() && trials.front().report.world_size == 1 &&
            trials.front().report.scale_up == 1) {
          trials.push_back({way, trials.front().report});
          continue;
        }
        Report report;
        if (const int code = train_with(way, workers, report); code != 0) return code;
        trials.push_back({way, std::move(report)});
      }
    }
    check_measured(trials);
    std::fputs(table(trials).c_str(), stdout);
    if (!output_.empty()) write(trials);
    return 0;
  }

 private:
  void check_model() const {
    const auto& recipes = train::recipes();
    if (std::ranges::any_of(recipes, [&](const auto& r) { return r->name() == model_; })) return;
    std::vector<std::string> names;
    for (const auto& recipe : recipes) names.push_back(recipe->name());
    throw InputError(
        fmt::format("'{}' is no model, expected one of {}", model_, fmt::join(names, ", ")));
  }

  std::vector<int> parse_numbers() const {
    std::vector<int> numbers;
    const char* const end = numbers_.data() + numbers_.size();
    for (const char* at = numbers_.data(); at < end;) {
      int number = 0;
      const auto [stop, error] = std::from_chars(at, end, number);
      if (error != std::errc{} || number < 1 || (stop != end && *stop != ','))
        throw InputError(fmt::format("--np {}: expected numbers from 1, as in 1,2,4", numbers_));
      numbers.push_back(number);
      at = stop + 1;
    }
    if (numbers.empty()) throw InputError("--np: expected numbers from 1, as in 1,2,4");
    return numbers;
  }

  // The exit code.
  int train_with(Way way, int workers, Report& report) const {
    const std::string file =
        (std::filesystem::temp_directory_path() / fmt::format("sullae-scaling-{}.json", ::getpid()))
            .string();
    const bool up = way == Way::up;
    JobOptions job;
    job.ranks = up ? 1 : workers;
    job.cpus_per_rank = up ? cpus_ * workers : cpus_;
    job.tag_output = false;
    job.command = {own_program(), "train", model_};
    const auto extra = app_->remaining();
    job.command.insert(job.command.end(), extra.begin(), extra.end());
    if (up && workers > 1)
      job.command.insert(job.command.end(), {"--scale-up", fmt::to_string(workers)});
    job.command.insert(job.command.end(), {"--report", file});
    fmt::print("\n{} with {}: {}\n", name_of(way), counted(workers, "worker"),
               up ? "one process" : fmt::format("{} processes", workers));
    std::fflush(stdout);
    const int code = run_job(job);
    if (code == 0) report = Report::read(file);
    std::error_code ignored;
    std::filesystem::remove(file, ignored);
    std::filesystem::remove(std::filesystem::path(file).replace_extension(".html"), ignored);
    return code;
  }

  static int workers_of(const Report& report) { return report.world_size * report.scale_up; }

  static double speedup(const Trial& trial, const std::vector<Trial>& trials) {
    return trial.report.samples_per_second / trials.front().report.samples_per_second;
  }
  // The first steps are not timed.
  static void check_measured(const std::vector<Trial>& trials) {
    if (std::ranges::all_of(trials, [](const auto& t) { return t.report.samples_per_second > 0; }))
      return;
    throw InputError("the runs were too short to be timed: give them more steps");
  }
  static double efficiency(const Trial& trial, const std::vector<Trial>& trials) {
    const double ideal =
        static_cast<double>(workers_of(trial.report)) / workers_of(trials.front().report);
    return speedup(trial, trials) / ideal;
  }

  static std::string table(const std::vector<Trial>& trials) {
    const train::Metric& metric = trials.front().report.metrics.front();  // each recipe has one
    std::string text =
        fmt::format("\n{} on {}\n\n{:<10} {:>8} {:>10} {:>12} {:>12} {:>9} {:>11}\n",
                    trials.front().report.recipe, trials.front().report.data, "way", "workers",
                    "time", metric.name, "samples/s", "speedup", "efficiency");
    for (const Trial& trial : trials) {
      const Report& r = trial.report;
      text += fmt::format("{:<10} {:>8} {:>10} {:>12} {:>12.0f} {:>7.2f} x {:>9.0f} %\n",
                          name_of(trial.way), workers_of(r), train::format_duration(r.seconds),
                          format_test_metric(metric, r), r.samples_per_second,
                          speedup(trial, trials), 100 * efficiency(trial, trials));
    }
    return text;
  }

  void write(const std::vector<Trial>& trials) const {
    std::vector<train::ScalingPoint> points;
    auto results = nlohmann::json::array();
    for (const Trial& trial : trials) {
      const std::string way = name_of(trial.way);
      points.push_back({.way = way,
                        .workers = workers_of(trial.report),
                        .speedup = speedup(trial, trials),
                        .efficiency = efficiency(trial, trials),
                        .report = trial.report});
      nlohmann::json result{{"way", way},
                            {"workers", workers_of(trial.report)},
                            {"seconds", trial.report.seconds},
                            {"samples_per_second", trial.report.samples_per_second},
                            {"speedup", rounded(speedup(trial, trials))},
                            {"efficiency", rounded(efficiency(trial, trials))}};
      for (const auto& [metric, value] : trial.report.test_metrics)
        result["test_" + metric] = value;
      results.push_back(std::move(result));
    }
    train::write_scaling_page(output_, points);
    auto json = std::filesystem::path(output_).replace_extension(".json");
    write_file(json, nlohmann::json{{"model", model_}, {"results", results}}.dump(2) + "\n");
    fmt::print("\n{} and {} written\n", output_, json.string());
  }

  CLI::App* app_ = nullptr;
  std::string model_;
  std::string numbers_ = "1,2,4";
  std::string way_ = "both";
  int cpus_ = 0;
  std::string output_;
};

}  // namespace

std::unique_ptr<Command> make_scaling_command() { return std::make_unique<ScalingCommand>(); }

}  // namespace sullae::cli
