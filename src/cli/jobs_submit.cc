#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <thread>
#include <utility>

#include "base/deadline.h"
#include "cli/jobs_commands.h"
#include "cli/nearest_option.h"
#include "cli/open_cluster.h"
#include "cli/validators.h"
#include "sullae/error.h"

namespace sullae::cli {
namespace {

using cluster::Job;

// "mnist" of "sullae train mnist", "train" of "./train --epochs 3".
std::string name_of(const std::vector<std::string>& command) {
  std::string name = std::filesystem::path(command.front()).filename().string();
  if (name == "sullae" && command.size() > 2 && !command[2].starts_with('-')) name = command[2];
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '_' && c != '.') c = '-';
  }
  return name.empty() || name.front() == '.' || name.front() == '-' ? "job" : name.substr(0, 40);
}

std::pair<std::string, std::string> mount_of(const std::string& entry) {
  const auto equals = entry.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == entry.size())
    throw InputError(fmt::format("--mount '{}': expected NAME=PATH", entry));
  return {entry.substr(0, equals), entry.substr(equals + 1)};
}

class SubmitCommand final : public Command {
 public:
  CLI::App* declare(CLI::App& jobs) override {
    app_ = jobs.add_subcommand(
        "submit", "Submit a job:\n  sullae jobs submit [OPTIONS] PROGRAM [ARGUMENTS...]");
    CLI::App& app = *app_;
    // Everything from the first word that is no option belongs to the program.
    app.prefix_command();
    app.add_option("--nodes", nodes_, "So many nodes, from the beginning to the end")
        ->check(positive_integer())
        ->type_name("N");
    app.add_option("--min-nodes", given_.min_nodes, "Elastic: begin, and go on, with so many nodes")
        ->check(positive_integer())
        ->capture_default_str()
        ->type_name("N")
        ->excludes("--nodes");
    app.add_option("--max-nodes", given_.max_nodes,
                   "Elastic: grow to so many as they become free; by default --min-nodes")
        ->check(positive_integer())
        ->type_name("N")
        ->excludes("--nodes");
    app.add_option("--ranks-per-node", given_.ranks_per_node, "Ranks on each node")
        ->check(positive_integer())
        ->capture_default_str()
        ->type_name("N");
    app.add_option("--cpus-per-rank", given_.cpus_per_rank, "Processors of each rank")
        ->check(positive_integer())
        ->capture_default_str()
        ->type_name("N");
    app.add_option("--priority", given_.priority, "high preempts low; or the engine's number")
        ->type_name("high|low|N");
    app.add_option("--time", time_,
                   "How long an attempt may take: minutes, 90m, 2h, 1-12:00:00; the job goes on in "
                   "the next one")
        ->check(nonempty())
        ->type_name("TIME");
    app.add_option("--begin", given_.begin, "Begin not before: 2026-11-25T02:00:00")
        ->check(nonempty())
        ->type_name("TIME");
    app.add_option("--deadline", given_.deadline, "End it then in any case: 2026-11-25T06:00:00")
        ->check(nonempty())
        ->type_name("TIME");
    app.add_option(
           "--attempts", given_.attempts,
           "How often it begins at most, when it was preempted, lost its node or ran out of time")
        ->check(positive_integer())
        ->capture_default_str()
        ->type_name("N");
    app.add_option("--after", given_.after, "Begin when that job has ended well")
        ->check(nonempty())
        ->type_name("JOB");
    app.add_option("--name", given_.name, "By default the recipe's or the program's")
        ->type_name("NAME");
    app.add_option("--env", environment_,
                   "Variable for every rank; without a value, this environment's. May be repeated")
        ->type_name("NAME[=VALUE]")
        ->allow_extra_args(false);
    app.add_option("--mount", mounts_,
                   "A folder that must be there on every node; {NAME} in the command becomes its "
                   "path. May be repeated")
        ->type_name("NAME=PATH")
        ->allow_extra_args(false);
    app.add_option("--file", file_,
                   "A TOML file with these options under the same names, and command")
        ->type_name("FILE");
    app.add_option("--idempotency-key", given_.idempotency_key,
                   "Submitting again with the same key is the same submit")
        ->type_name("KEY");
    app.add_option("--engine", engine_, "slurm; kubernetes with --dry-run")
        ->check(CLI::IsMember(cluster::engine_names()))
        ->capture_default_str();
    app.add_option("--engine-option", given_.engine_options,
                   "An option of sbatch for the nodes of ranks, such as --gres=gpu:4; of "
                   "kubernetes, image=NAME. May be repeated")
        ->type_name("OPTION")
        ->allow_extra_args(false);
    app.add_flag("--dry-run", dry_run_, "Print what the engine would be given, and submit nothing");
    app.add_flag("--watch", watch_,
                 "Show what becomes of it until it is over; the exit code is the job's");
    app.footer(
        "With --min-nodes below --max-nodes the job is elastic: it needs sullae train, or a "
        "program that uses sullae::elastic.\n"
        "sullae train keeps its checkpoints and its report in the job's folder, and goes on after "
        "the newest checkpoint in each\n"
        "attempt. Other programs find SULLAE_JOB_FOLDER and SULLAE_JOB_ATTEMPT in their "
        "environment.");
    return app_;
  }

  int run() override {
    const Job job = describe_job();
    if (dry_run_) {
      OpenCluster cluster(engine_);
      if (engine_ == "slurm") fmt::print("# job.toml\n{}\n", to_toml(job));
      fmt::print("{}", cluster.jobs.describe(job));
      return 0;
    }
    OpenCluster cluster(engine_);
    const auto submitted = submit(cluster, job);
    const auto id = submitted.folder.id();
    // The name alone for scripts, the rest for people.
    fmt::print("{}\n", id);
    std::fflush(stdout);
    if (watch_) return watch_job(cluster, submitted.folder);
    fmt::print(stderr,
               "{0} {1}\n"
               "  sullae jobs watch {0}      what becomes of it\n"
               "  sullae jobs logs -f {0}    what it prints\n"
               "  sullae jobs cancel {0}     ends it\n",
               id, submitted.is_new ? "is submitted" : "was submitted before, with this key");
    return 0;
  }

 private:
  // With a key it may be asked again: whoever waits for the job's end, a pipeline above all, is
  // told of that and not of an engine that is busy.
  cluster::Jobs::Submitted submit(OpenCluster& cluster, const Job& job) const {
    const bool is_patient = watch_ && !job.idempotency_key.empty();
    const Deadline deadline(std::chrono::minutes{10},
                            "the limit of --watch for an engine's answer");
    std::string told;
    for (;;) {
      try {
        return cluster.jobs.submit(job);
      } catch (const InputError&) {
        throw;
      } catch (const Error& error) {
        if (!is_patient) throw;
        if (deadline.passed())
          throw TimeoutError(fmt::format("{} {}", error.what(), deadline.describe()));
        if (std::exchange(told, error.what()) != error.what())
          fmt::print(stderr, "{}; it is asked again\n", error.what());
      }
      std::this_thread::sleep_for(std::chrono::seconds{5});
    }
  }

  Job describe_job() {
    Job job;
    if (!file_.empty()) job = cluster::read_job(file_);
    const auto take = [&](const char* option, auto& to, const auto& from) {
      if (app_->count(option) > 0) to = from;
    };
    const auto command = app_->remaining();
    if (!command.empty() && command.front().starts_with('-')) {
      throw UsageError(describe_unknown(*app_, command.front(), "sullae jobs submit"));
    }
    if (!command.empty()) job.command = command;
    if (nodes_ > 0) job.min_nodes = job.max_nodes = nodes_;
    take("--min-nodes", job.min_nodes, given_.min_nodes);
    take("--max-nodes", job.max_nodes, given_.max_nodes);
    if (app_->count("--min-nodes") > 0 && app_->count("--max-nodes") == 0)
      job.max_nodes = std::max(job.max_nodes, job.min_nodes);
    take("--ranks-per-node", job.ranks_per_node, given_.ranks_per_node);
    take("--cpus-per-rank", job.cpus_per_rank, given_.cpus_per_rank);
    take("--priority", job.priority, given_.priority);
    take("--begin", job.begin, given_.begin);
    take("--deadline", job.deadline, given_.deadline);
    take("--attempts", job.attempts, given_.attempts);
    take("--after", job.after, given_.after);
    take("--name", job.name, given_.name);
    take("--idempotency-key", job.idempotency_key, given_.idempotency_key);
    take("--engine-option", job.engine_options, given_.engine_options);
    if (!time_.empty()) job.time = cluster::parse_time_limit(time_, "--time");
    for (const auto& entry : environment_) {
      const auto [name, value] = variable_of(entry);
      job.environment[name] = value;
    }
    for (const auto& entry : mounts_) {
      const auto [name, path] = mount_of(entry);
      job.mounts[name] = std::filesystem::absolute(path).string();
    }
    // An image has none of this host's folders.
    if (job.directory.empty())
      job.directory = engine_ == "kubernetes" ? "/" : std::filesystem::current_path().string();
    if (job.name.empty() && !job.command.empty()) job.name = name_of(job.command);
    check(job);
    return job;
  }

  CLI::App* app_ = nullptr;
  Job given_;
  int nodes_ = 0;
  std::string time_;
  std::vector<std::string> environment_;
  std::vector<std::string> mounts_;
  std::string file_;
  std::string engine_ = "slurm";
  bool dry_run_ = false;
  bool watch_ = false;
};

}  // namespace

std::unique_ptr<Command> make_jobs_submit_command() { return std::make_unique<SubmitCommand>(); }

}  // namespace sullae::cli
