#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "base/counted.h"
#include "cli/commands.h"
#include "cli/jobs_commands.h"
#include "cli/open_cluster.h"
#include "cli/validators.h"
#include "cluster/coordinator.h"
#include "cluster/job_json.h"
#include "sullae/error.h"

namespace sullae::cli {
namespace {

using cluster::JobView;

constexpr std::chrono::seconds kWatchPeriod{2};

std::string line_of(const JobView& view) {
  std::string line = fmt::format("{}  {}", view.facts.id, to_text(view.state));
  if (view.state == cluster::JobState::running)
    line += fmt::format(" on {} of {} nodes", view.nodes, view.facts.size.max_nodes);
  if (view.facts.attempts > 1) line += fmt::format(", attempt {}", view.facts.attempts);
  if (!view.reason.empty()) line += ": " + view.reason;
  return line;
}

void show(const JobView& view, const std::filesystem::path& folder) {
  const auto& job = view.facts.job;
  const auto row = [](const char* name, const std::string& value) {
    if (!value.empty()) fmt::print("{:12} {}\n", name, value);
  };
  const auto path_row = [&](const char* name, const std::filesystem::path& path) {
    if (std::filesystem::exists(path)) row(name, path.string());
  };
  row("job", view.facts.id);
  row("state", to_text(view.state));
  row("why", view.reason);
  if (is_over(view.state)) row("exit code", fmt::to_string(view.exit_code));
  row("command", fmt::format("{}", fmt::join(job.command, " ")));
  row("directory", job.directory);
  row("nodes", format_nodes(view));
  row("on", fmt::format("{}", fmt::join(view.hosts, " ")));
  row("ranks", fmt::format("{} a node, {} each", job.ranks_per_node,
                           counted(job.cpus_per_rank, "processor")));
  row("priority", job.priority);
  if (job.time) row("time", cluster::format_time_limit(*job.time));
  row("begin", job.begin);
  row("deadline", job.deadline);
  row("after", job.after);
  for (const auto& [name, path] : job.mounts) row("mount", fmt::format("{}={}", name, path));
  for (const auto& [name, value] : job.environment) row("env", fmt::format("{}={}", name, value));
  row("submitted", format_time(view.submitted));
  row("started", format_time(view.started));
  row("ended", format_time(view.ended));
  row("engine's id", view.engine_id);
  for (int attempt = 1; attempt <= view.facts.attempts; ++attempt) {
    const auto result = cluster::JobFolder(folder).attempt_result(attempt);
    row("attempt",
        fmt::format(
            "{}: {}", attempt,
            !result
                ? (attempt < view.facts.attempts || is_over(view.state) ? "ended without a word"
                                                                        : "runs")
                : to_text(result->end) + (result->reason.empty() ? "" : ": " + result->reason)));
  }
  row("folder", folder.string());
  if (view.facts.attempts > 0)
    path_row("log", cluster::JobFolder(folder).attempt(view.facts.attempts) / "log");
  path_row("checkpoints", folder / "checkpoints");
  path_row("report", folder / "report.html");
  path_row("result", folder / "result.json");
}

class JobsCommand final : public Command {
 public:
  CLI::App* declare(CLI::App& program) override {
    app_ =
        program.add_subcommand("jobs", "Jobs on a cluster: submit, watch, resize and cancel them");
    app_->require_subcommand(1);
    submit_parser_ = submit_->declare(*app_);
    list_ = app_->add_subcommand("list", "All jobs, the oldest first");
    show_ = app_->add_subcommand("show", "All that is known of a job, and where its results are");
    watch_ = app_->add_subcommand(
        "watch", "Say what becomes of a job until it is over; the exit code is the job's");
    logs_parser_ = logs_->declare(*app_);
    cancel_ = app_->add_subcommand("cancel", "End a job, or keep it from beginning");
    resize_ = app_->add_subcommand("resize", "Give a running elastic job more nodes, or fewer");
    retry_ = app_->add_subcommand(
        "retry", "Begin a job that is over again; it goes on from its newest checkpoint");
    nodes_ = app_->add_subcommand("nodes", "The cluster's nodes");
    for (CLI::App* const one : {show_, watch_, cancel_, resize_, retry_})
      one->add_option("job", id_, "The job, by its name or number")->required()->type_name("JOB");
    resize_->add_option("--min", size_.min_nodes, "Nodes with which it goes on")
        ->check(positive_integer())
        ->type_name("N");
    resize_->add_option("--max", size_.max_nodes, "Nodes to which it grows")
        ->check(positive_integer())
        ->type_name("N");
    for (CLI::App* const one : {list_, show_}) one->add_flag("--json", json_, "For programs");
    list_->add_flag("--active", active_, "Only those that are not over");
    coordinate_ =
        app_->add_subcommand("coordinate", "Run an attempt of a job; the cluster starts it")
            ->group("");
    work_ = app_->add_subcommand("work", "Start ranks for a job's launcher; the cluster starts it")
                ->group("");
    for (CLI::App* const one : {coordinate_, work_}) {
      one->add_option("folder", id_)->required();
      one->add_option("--engine", engine_);
    }
    work_->add_option("--attempt", attempt_);
    work_->add_flag("--stay", stays_);
    app_->footer(
        "The cluster is that of SULLAE_CLUSTER, or ~/.sullae/cluster (`sullae cluster up` makes "
        "one), or else the site's Slurm.\n"
        "How long it may take to answer: SULLAE_CLUSTER_TIMEOUT, 30 seconds.");
    return app_;
  }

  int run() override {
    if (coordinate_->parsed())
      return cluster::coordinate(id_, cluster::read_settings(cluster::cluster_folder()), engine_);
    if (work_->parsed()) return cluster::work(id_, attempt_, stays_);
    if (submit_parser_->parsed()) return submit_->run();
    if (logs_parser_->parsed()) return logs_->run();
    OpenCluster cluster;
    if (list_->parsed()) return list(cluster);
    if (nodes_->parsed()) {
      print_nodes(cluster.engine->nodes());
      return 0;
    }
    const auto folder = cluster.jobs.find(id_);
    if (show_->parsed()) {
      const auto view = view_of(cluster.jobs, folder);
      if (json_) {
        fmt::print("{}\n", cluster::json_of(view).dump(2));
      } else {
        show(view, folder.path());
      }
      return 0;
    }
    if (watch_->parsed()) return watch_job(cluster, folder);
    if (cancel_->parsed()) {
      cluster.jobs.cancel(folder);
      fmt::print("{} is cancelled\n", folder.id());
    } else if (retry_->parsed()) {
      cluster.jobs.retry(folder);
      fmt::print("{} is submitted again\n", folder.id());
    } else if (resize_->parsed()) {
      return resize(cluster, folder);
    }
    return 0;
  }

 private:
  int list(OpenCluster& cluster) const {
    const auto views = views_of(cluster.jobs);
    if (!json_) {
      print_jobs(views, active_ ? JobFilter::active : JobFilter::all);
      return 0;
    }
    std::vector<std::string> lines;
    for (const auto& view : views) {
      if (!active_ || !is_over(view.state)) lines.push_back(cluster::json_of(view).dump());
    }
    fmt::print("[{}]\n", fmt::join(lines, ",\n"));
    return 0;
  }

  int resize(OpenCluster& cluster, const cluster::JobFolder& folder) {
    if (size_.min_nodes == 0 && size_.max_nodes == 0)
      throw InputError("to what size? Give --min N, --max N, or both");
    const auto now = folder.size(folder.job());
    const cluster::Size size{.min_nodes = size_.min_nodes > 0 ? size_.min_nodes : now.min_nodes,
                             .max_nodes = size_.max_nodes > 0 ? size_.max_nodes : now.max_nodes};
    cluster.jobs.resize(folder, size);
    fmt::print("{} may have {} node{}\n", folder.id(),
               size.min_nodes == size.max_nodes
                   ? fmt::to_string(size.min_nodes)
                   : fmt::format("{} to {}", size.min_nodes, size.max_nodes),
               size.max_nodes == 1 ? "" : "s");
    return 0;
  }

  CLI::App* app_ = nullptr;
  std::unique_ptr<Command> submit_ = make_jobs_submit_command();
  std::unique_ptr<Command> logs_ = make_jobs_logs_command();
  CLI::App* submit_parser_ = nullptr;
  CLI::App* logs_parser_ = nullptr;
  CLI::App* list_ = nullptr;
  CLI::App* show_ = nullptr;
  CLI::App* watch_ = nullptr;
  CLI::App* cancel_ = nullptr;
  CLI::App* resize_ = nullptr;
  CLI::App* retry_ = nullptr;
  CLI::App* nodes_ = nullptr;
  CLI::App* coordinate_ = nullptr;
  CLI::App* work_ = nullptr;
  std::string id_;
  std::string engine_ = "slurm";
  cluster::Size size_{.min_nodes = 0, .max_nodes = 0};
  int attempt_ = 0;
  bool stays_ = false;
  bool json_ = false;
  bool active_ = false;
};

}  // namespace

int watch_job(OpenCluster& cluster, const cluster::JobFolder& folder) {
  std::string last;
  for (;;) {
    const auto answer = view_or_problem(cluster, folder);
    const auto* const view = std::get_if<cluster::JobView>(&answer);
    const std::string line = view != nullptr ? line_of(*view) : std::get<std::string>(answer);
    if (line != last) {
      fmt::print("{}\n", line);
      std::fflush(stdout);
    }
    last = line;
    if (view != nullptr && is_over(view->state)) return view->exit_code;
    std::this_thread::sleep_for(kWatchPeriod);
  }
}

std::unique_ptr<Command> make_jobs_command() { return std::make_unique<JobsCommand>(); }

}  // namespace sullae::cli
