#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/end_signals.h"
#include "base/file.h"
#include "base/log.h"
#include "cli/commands.h"
#include "cli/open_cluster.h"
#include "pipeline/definition.h"
#include "pipeline/runner.h"
#include "pipeline/turn.h"
#include "sullae/error.h"

namespace sullae::cli {
namespace {

namespace fs = std::filesystem;
using namespace pipeline;

constexpr int kFailed = 1;
constexpr int kLate = 3;
constexpr int kInterrupted = 130;

// As it was when this began: an update in the meantime removes it.
const fs::path& this_program() {
  static const fs::path path = fs::read_symlink("/proc/self/exe");
  return path;
}

class PipelineCommand final : public Command {
 public:
  CLI::App* declare(CLI::App& program) override {
    CLI::App* app = program.add_subcommand(
        "pipeline", "Steps that need each other, by hand or again and again, with a deadline");
    app->require_subcommand(1);
    run_ = app->add_subcommand("run", "Do what is not done of a run");
    declare_file(*run_);
    auto* const scheduled = run_->add_option("--scheduled", scheduled_,
                                             "The run's time, or its day where it is due once a "
                                             "day; else the last that was due (every), or now");
    scheduled->type_name("TIME");
    run_->add_flag("--repeat", repeat_, "Stay, and run whenever it is due")->excludes(scheduled);
    run_->add_flag("--submit-next", submits_next_,
                   "First submit the run that is due next, as `sullae pipeline submit` does");
    run_->add_flag("--no-deadline", has_no_deadline_,
                   "None is missed: for a run that is made up for long after its time");
    run_->footer(
        "Exit codes: 0: done; 1: a step failed; 3: done, after the deadline; 130: interrupted.");
    submit_ = app->add_subcommand(
        "submit", "Submit the run that is due next to the cluster; each submits the one after it");
    declare_file(*submit_);
    submit_->add_flag("--dry-run", dry_run_,
                      "Print what the engine would be given, and submit nothing");
    show_ = app->add_subcommand("show", "Show the last runs, and the steps of one");
    declare_file(*show_);
    show_->add_option("--scheduled", scheduled_, "The run; else the last")->type_name("TIME");
    show_->add_flag("--json", json_, "All that is known of it, as JSON");
    list_ = app->add_subcommand("list", "Show the pipelines of a folder");
    list_->add_option("DIR", folder_, "Where their files are")->capture_default_str();
    app->footer("docs/pipelines.md has an example.");
    return app;
  }

  int run() override {
    this_program();
    if (list_->parsed()) return list();
    const Pipeline pipeline = read_pipeline(file_);
    if (show_->parsed()) return show(pipeline);
    if (submit_->parsed()) return submit(pipeline, next_of(pipeline), /*again=*/true);
    return repeat_ ? repeat(pipeline) : run_once(pipeline);
  }

 private:
  void declare_file(CLI::App& app) {
    app.add_option("FILE", file_, "The pipeline, a TOML file")->required()->type_name("FILE");
  }

  static const Schedule& schedule_of(const Pipeline& pipeline) {
    if (pipeline.every) return *pipeline.every;
    throw InputError(
        fmt::format("{}: does not say when it is due: expected every = \"day at 02:00\"",
                    pipeline.file.string()));
  }
  static Time next_of(const Pipeline& pipeline) {
    return schedule_of(pipeline).next(std::time(nullptr));
  }

  // A day alone means the time of that day when the pipeline is due.
  Time given_time(const Pipeline& pipeline) const {
    constexpr std::size_t kDay = std::string_view("2026-11-24").size();
    const Time time = parse_time(scheduled_, "--scheduled");
    if (scheduled_.size() != kDay || !pipeline.every) return time;
    const Time due = pipeline.every->next(time - 1);
    return pipeline::to_text(due).starts_with(scheduled_) ? due : time;
  }

  Time scheduled_of(const Pipeline& pipeline) const {
    if (!scheduled_.empty()) return given_time(pipeline);
    const Time now = std::time(nullptr);
    return pipeline.every ? pipeline.every->latest(now) : now;
  }

  int run_once(Pipeline pipeline) {
    if (has_no_deadline_) pipeline.deadline.clear();
    const Time scheduled = scheduled_of(pipeline);
    const auto submit_next = [&] {
      submit(pipeline, schedule_of(pipeline).next(scheduled), /*again=*/false);
    };
    bool is_submitted = !submits_next_;
    try {
      if (!is_submitted) submit_next();
      is_submitted = true;
    } catch (const Error& error) {
      // This run is not to suffer from that.
      log::warning("{}: the next run is not submitted: {}; it is tried again after this one",
                   pipeline.name, error.what());
    }
    const EndSignals signals;
    const int code = run_one(pipeline, scheduled, signals);
    if (!is_submitted) submit_next();
    return code;
  }

  // What was missed while another run was on its way is left out, or, with overlap = "queue", made
  // up for.
  int repeat(Pipeline pipeline) {
    schedule_of(pipeline);
    const EndSignals signals;
    Time last = 0;
    Time told = 0;
    std::string problem;
    for (;;) {
      read_again(pipeline, problem);
      const Schedule& schedule = schedule_of(pipeline);
      const Time now = std::time(nullptr);
      const Time latest = schedule.latest(now);
      const Time due = last == 0                            ? latest
                       : pipeline.overlap == Overlap::queue ? schedule.next(last)
                                                            : std::max(latest, schedule.next(last));
      if (due <= now) {
        last = due;
        const auto before = State(pipeline).run(due);
        if (before && before->state == RunState::done) continue;
        try {
          run_one(pipeline, due, signals);
        } catch (const std::exception& error) {
          // The next one may be otherwise.
          log::warning("{}: {}", pipeline.name, error.what());
        }
      }
      if (due > now && std::exchange(told, due) != due)
        log::info("{}: runs next at {}", pipeline.name, pipeline::to_text(due));
      // Clocks are set: not one long wait.
      constexpr std::chrono::milliseconds kTurn{500};
      if (signals.come_within(due <= now ? std::chrono::milliseconds{0} : kTurn))
        return kInterrupted;
    }
  }

  // Who edits the file may be in the middle of it.
  void read_again(Pipeline& pipeline, std::string& problem) const {
    try {
      Pipeline now = read_pipeline(file_);
      schedule_of(now);
      pipeline = std::move(now);
      problem.clear();
    } catch (const InputError& error) {
      if (problem != error.what()) log::warning("{}; going on as it was", error.what());
      problem = error.what();
    }
  }

  static int run_one(const Pipeline& pipeline, Time scheduled, const EndSignals& signals) {
    const State state(pipeline);
    const auto is_to_end = [&] {
      return signals.come_within(std::chrono::milliseconds{0});
    };
    const auto turn = wait_for_turn(pipeline, state, scheduled, is_to_end);
    if (!turn) return is_to_end() ? kInterrupted : 0;
    const auto done = Runner(pipeline, state, scheduled, this_program(), *turn).run([&] {
      return is_to_end() || state.is_asked_to_end();
    });
    if (done.state == RunState::failed) return kFailed;
    if (done.state == RunState::interrupted) return kInterrupted;
    return done.is_late ? kLate : 0;
  }

  // `again`: also what was cancelled, or failed, before its time.
  int submit(const Pipeline& pipeline, Time scheduled, bool again) const {
    OpenCluster cluster;
    const std::string when = pipeline::to_text(scheduled);
    const cluster::Job job{
        .command = {this_program().string(), "pipeline", "run", pipeline.file.string(),
                    "--scheduled", when, "--submit-next"},
        .name = "pipeline-" + pipeline.name.substr(0, 50),
        .directory = pipeline.folder.string(),
        .begin = when,
        .idempotency_key = fmt::format("pipeline {} {}", pipeline.file.string(), when)};
    if (dry_run_) {
      fmt::print("{}", cluster.jobs.describe(job));
      return 0;
    }
    const auto submitted = cluster.jobs.submit(job);
    bool will_run = submitted.is_new;
    if (again && !will_run) {
      const auto state = cluster.jobs.view(submitted.folder).state;
      will_run = cluster::is_over(state) && state != cluster::JobState::completed;
      if (will_run) cluster.jobs.retry(submitted.folder);
    }
    fmt::print("{} {} as {}\n", pipeline.name,
               will_run ? fmt::format("will run at {}", when)
                        : fmt::format("was submitted before for {}", when),
               submitted.folder.id());
    std::fflush(stdout);
    return 0;
  }

  // As people are shown it.
  static nlohmann::json json_of(pipeline::RunRecord run, const State& state) {
    auto shown = pipeline::to_json(run);
    if (!state.is_killed(run)) return shown;
    shown["state"] = state.describe(run);
    for (auto& [name, step] : shown["steps"].items())
      step["state"] = state.describe(run, run.steps.at(name));
    return shown;
  }

  int show(const Pipeline& pipeline) const {
    const State state(pipeline);
    constexpr std::size_t kShown = 10;
    const auto runs = state.runs(50);
    const auto run = scheduled_.empty()
                         ? (runs.empty() ? std::nullopt : std::optional(runs.front()))
                         : state.run(given_time(pipeline));
    if (!run && !scheduled_.empty())
      throw InputError(fmt::format("{}: there is no run of {}", pipeline.name, scheduled_));
    if (json_) {
      fmt::print("{}\n", run ? json_of(*run, state).dump(2) : "null");
      return 0;
    }
    fmt::print("{}{}\n\n", pipeline.name,
               pipeline.every
                   ? fmt::format(", due next at {}", pipeline::to_text(next_of(pipeline)))
                   : "");
    const auto usual = usual_of(runs);
    fmt::print("{:<26}{:<13}{:>10}  {}\n", "run", "state", "time", "deadline");
    for (std::size_t i = 0; i < std::min(kShown, runs.size()); ++i)
      fmt::print("{:<26}{:<13}{:>10}  {}\n", pipeline::to_text(runs[i].scheduled),
                 state.describe(runs[i]),
                 state.is_killed(runs[i]) ? "-" : took(runs[i].started, runs[i].ended),
                 deadline_of(runs[i]));
    fmt::print("\n{:<20}{:<13}{:>10}{:>10}  {}\n", "step", "state", "time", "usually", "after");
    for (const Step& step : pipeline.steps) {
      const auto found = run ? run->steps.find(step.name) : decltype(run->steps.find(""))();
      const auto record = run && found != run->steps.end() ? found->second : StepRecord();
      const bool is_cut_off = run && state.is_killed(*run, record);
      fmt::print("{:<20}{:<13}{:>10}{:>10}  {}\n", step.name,
                 run ? state.describe(*run, record) : pipeline::to_text(record.state),
                 is_cut_off ? "-" : took(record.started, record.ended),
                 usual.contains(step.name) ? format_seconds(usual.at(step.name)) : "-",
                 fmt::join(step.after, ", "));
    }
    if (!run) return 0;
    for (const auto& [name, record] : run->steps) {
      if (!record.reason.empty()) fmt::print("\n{}: {}\n", name, record.reason);
    }
    fmt::print("\nlogs: {}\n", state.run_folder(run->scheduled).string());
    return 0;
  }

  int list() const {
    std::error_code reason;
    const auto files = entries_of(folder_, reason);
    if (!files) throw InputError(fmt::format("{}: cannot be read: {}", folder_, reason.message()));
    fmt::print("{:<24}{:<28}{:<13}{}\n", "pipeline", "due next", "last run", "file");
    for (const auto& file : *files) {
      if (file.extension() != ".toml" || !looks_like_pipeline(file)) continue;
      try {
        const Pipeline pipeline = read_pipeline(file);
        const State state(pipeline);
        const auto runs = state.runs(1);
        fmt::print("{:<24}{:<28}{:<13}{}\n", pipeline.name,
                   pipeline.every ? pipeline::to_text(next_of(pipeline)) : "-",
                   runs.empty() ? "-" : state.describe(runs.front()), file.string());
      } catch (const InputError& error) {
        fmt::print(stderr, "{}\n", error.what());
      }
    }
    return 0;
  }

  static std::string took(Time started, Time ended) {
    if (started == 0) return "-";
    return format_seconds(
        static_cast<double>((ended == 0 ? Time{std::time(nullptr)} : ended) - started));
  }
  static std::string deadline_of(const RunRecord& run) {
    return run.deadline ? pipeline::to_text(*run.deadline) : "-";
  }

  CLI::App* run_ = nullptr;
  CLI::App* submit_ = nullptr;
  CLI::App* show_ = nullptr;
  CLI::App* list_ = nullptr;
  std::string file_;
  std::string folder_ = ".";
  std::string scheduled_;
  bool repeat_ = false;
  bool has_no_deadline_ = false;
  bool submits_next_ = false;
  bool dry_run_ = false;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> make_pipeline_command() { return std::make_unique<PipelineCommand>(); }

}  // namespace sullae::cli
