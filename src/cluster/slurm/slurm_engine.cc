#include "cluster/slurm/slurm_engine.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <string_view>
#include <utility>

#include "base/counted.h"
#include "base/environment.h"
#include "base/local_time.h"
#include "cluster/command.h"
#include "launch/remote_shell.h"
#include "sullae/error.h"

namespace sullae::cluster {
namespace {

template <class Which>
void unset_variables(const Which& which) {
  std::vector<std::string> names;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view entry(*variable);
    const auto name = entry.substr(0, entry.find('='));
    if (which(name)) names.emplace_back(name);
  }
  for (const auto& name : names) ::unsetenv(name.c_str());
}

// Slurm's commands begin their lines with their names.
std::string first_line(std::string text) {
  text.resize(std::min(text.find('\n'), text.size()));
  return text;
}

class SlurmEngine final : public Engine {
 public:
  explicit SlurmEngine(Settings settings) : settings_(std::move(settings)) {
    if (!settings_.slurm_conf.empty())
      ::setenv("SLURM_CONF", settings_.slurm_conf.c_str(), /*overwrite=*/1);
    // A user's defaults for these commands would hide jobs, or wait for them.
    unset_variables([](std::string_view name) {
      return name.starts_with("SBATCH_") || name.starts_with("SQUEUE_") ||
             name.starts_with("SCANCEL_") || name.starts_with("SINFO_");
    });
  }

  std::string name() const override { return "slurm"; }

  std::string describe(const Submission& submission) const override {
    constexpr const char* kPlain =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_@%+=:,./-";
    std::string text;
    for (const auto& word : words(submission))
      text += (text.empty() ? "" : " ") +
              (word.find_first_not_of(kPlain) == std::string::npos ? word : shell_word(word));
    return text + " <<'END'\n" + script(submission) + "END\n";
  }

  std::string submit(const Submission& submission) override {
    const CommandResult result = run_installed({.words = words(submission),
                                                .input = script(submission),
                                                .inherited_fd = submission.inherited_fd});
    if (result.exit_code != 0) refuse(submission, result);
    std::string id = first_line(result.output);
    id.resize(std::min(id.find(';'), id.size()));  // on a federation, the cluster's name follows
    return id;
  }

  std::vector<EngineJob> jobs(const std::string& jobs, const std::string& id) override {
    std::vector<std::string> words = {"squeue",   "--noheader", "--all",  "--states=all",
                                      "--format", kQueueFormat, "--user", user()};
    if (!id.empty()) words.push_back("--name=" + id);
    return parse_queue(run_or_throw(words).output, jobs);
  }

  void cancel(const std::vector<std::string>& ids) override {
    if (ids.empty()) return;
    std::vector<std::string> words = {"scancel", "--quiet"};
    words.insert(words.end(), ids.begin(), ids.end());
    run_or_throw(words);
  }

  std::string this_job() const override {
    const auto id = process_environment()("SLURM_JOB_ID");
    if (!id)
      throw InputError(
          "SLURM_JOB_ID is not set: the batch system starts this command, and nobody else");
    return *id;
  }

  void forget_this_job() override {
    unset_variables(
        [](std::string_view name) { return name.starts_with("SLURM_") && name != "SLURM_CONF"; });
  }

  void check(const Submission& submission) override {
    check_options(settings_.sbatch, "cluster.toml, sbatch");
    check_options(submission.job.engine_options, "--engine-option");
    // sbatch --test-only refuses what nodes that are about to stop could run later.
    const auto partition = partition_of(submission);
    if (last_partition(words(submission)) != partition) return;  // one of the user's own
    const int cpus = submission.job.ranks_per_node * submission.job.cpus_per_rank;
    int in_partition = 0;
    int fitting = 0;
    std::string name = partition;
    for (const Node& node : nodes()) {
      for (const auto& [one, is_default] : node.partitions) {
        if (partition.empty() ? !is_default : one != partition) continue;
        name = one;
        ++in_partition;
        if (node.cpus >= cpus) ++fitting;
      }
    }
    if (in_partition == 0 && !partition.empty()) throw no_partition(partition);
    if (fitting >= nodes_of(submission)) return;
    throw InputError(fmt::format(
        "{} of {} (--ranks-per-node × --cpus-per-rank) asked for, and partition {} has {} such "
        "(sullae jobs nodes)",
        counted(nodes_of(submission), "node"), counted(cpus, "processor"), name, fitting));
  }

  // While nodes start, Slurm preempts their job, and takes that back when they are there.
  bool was_to_go(const std::string& id) override {
    constexpr std::string_view kKey = "PreemptTime=";
    const auto text =
        run_installed({.words = {"scontrol", "show", "job", id, "--oneliner"}}).output;
    const auto at = text.find(kKey);
    return at != std::string::npos && text.compare(at + kKey.size(), 4, "None") != 0;
  }

  void requeue(const std::string& id) override {
    run_or_throw({"scontrol", "requeue", "Incomplete", id});
  }

  std::vector<Node> nodes() override {
    return parse_nodes(
        run_or_throw({"sinfo", "--noheader", "--all", "--Node", "--format", kNodeFormat}).output);
  }

 private:
  static std::string user() { return fmt::to_string(::getuid()); }

  CommandResult run_or_throw(const std::vector<std::string>& words) const {
    check_configuration();
    CommandResult result = run_installed({.words = words});
    if (result.exit_code == 0) return result;
    throw_no_answer(result);
  }

  static CommandResult run_installed(const Command& command) {
    const auto& program = command.words.front();
    if (is_installed(program)) return run_command(command);
    throw InputError(
        fmt::format("{} is not installed: there is no Slurm here. sullae cluster up starts one "
                    "on this machine",
                    program));
  }

  // For a file that is not there Slurm's commands would wait a minute.
  static void check_configuration() {
    const auto file = process_environment()("SLURM_CONF");
    std::error_code error;
    if (!file || file->empty() || std::filesystem::exists(*file, error)) return;
    throw Error(
        fmt::format("the cluster does not answer: SLURM_CONF names {}, which is not there; sullae "
                    "cluster up starts a cluster on this machine",
                    *file));
  }

  [[noreturn]] void throw_no_answer(const CommandResult& result) const {
    const auto says = [&](const char* text) {
      return result.errors.find(text) != std::string::npos;
    };
    std::string remedy;
    if (settings_.is_private && says("Unable to contact slurm controller"))
      remedy =
          ": sullae cluster up starts it again, after sullae cluster down where a part of it runs";
    if (says("Could not establish a configuration source"))
      remedy = ": there is no Slurm here; sullae cluster up starts one on this machine";
    throw Error(
        fmt::format("the cluster does not answer: {}{}", first_line(result.errors), remedy));
  }

  // Throws what sbatch's refusal is: the job's fault, or that of a cluster that may have taken it
  // all the same.
  [[noreturn]] void refuse(const Submission& submission, const CommandResult& result) const {
    const auto says = [&](const char* text) {
      return result.errors.find(text) != std::string::npos;
    };
    if (says("Socket timed out") || says("receive failure") || says("Zero Bytes"))
      throw TimeoutError("the cluster's answer did not come: " + first_line(result.errors));
    if (says("Unable to contact") || says("Connection") || says("establish a configuration source"))
      throw_no_answer(result);
    if (says("invalid partition")) throw no_partition(last_partition(words(submission)));
    const std::string why = "Slurm refuses the job: " + result.errors;
    // How many jobs a user may have, say, which passes.
    if (says("olicy") || says("imit")) throw Error(why);
    throw InputError(why);
  }

  InputError no_partition(const std::string& partition) const {
    return InputError(fmt::format(
        "the cluster has no partition '{}' (sullae jobs nodes): {} says which is for what",
        partition, (settings_.folder / "cluster.toml").string()));
  }

  // The last one counts.
  static std::string last_partition(const std::vector<std::string>& options) {
    constexpr std::string_view kLong = "--partition=";
    std::string name;
    for (std::size_t i = 0; i < options.size(); ++i) {
      const std::string& word = options[i];
      const bool is_apart = word == "-p" || word == "--partition";
      if (is_apart && i + 1 < options.size()) name = options[i + 1];
      if (word.starts_with(kLong)) name = word.substr(kLong.size());
      if (word.starts_with("-p") && !is_apart) name = word.substr(2);
    }
    return name;
  }

  std::string partition_of(const Submission& submission) const {
    const Job& job = submission.job;
    if (submission.mark.role == Role::coordinator && job.is_elastic()) return settings_.coordinator;
    const auto name = name_of_priority(settings_, job.priority);
    return name.empty() ? settings_.partition : name;
  }

  // Those by which a job is found again, and goes on.
  static void check_options(const std::vector<std::string>& options, const char* whose) {
    static constexpr std::array<std::pair<const char*, const char*>, 10> kOurs = {{
        {"--job-name", "-J"},
        {"--comment", nullptr},
        {"--chdir", "-D"},
        {"--output", "-o"},
        {"--array", "-a"},
        {"--wrap", nullptr},
        {"--wait", "-W"},
        {"--parsable", nullptr},
        {"--no-requeue", nullptr},
        {"--test-only", nullptr},
    }};
    for (const auto& option : options) {
      const auto is = [&](const auto& names) {
        const auto name = option.substr(0, option.find('='));
        return name == names.first ||
               (names.second != nullptr && option.starts_with(names.second) &&
                !option.starts_with("--"));
      };
      if (std::ranges::any_of(kOurs, is))
        throw InputError(fmt::format(
            "{} {}: is Sullae's own, by which it finds its jobs again and goes on with them", whose,
            option));
    }
  }

  static int nodes_of(const Submission& submission) {
    if (submission.mark.role == Role::workers) return submission.nodes;
    return submission.job.is_elastic() ? 1 : submission.job.min_nodes;
  }

  std::vector<std::string> words(const Submission& submission) const {
    const Job& job = submission.job;
    const bool is_workers = submission.mark.role == Role::workers;
    const bool has_ranks = is_workers || !job.is_elastic();
    const auto log = submission.folder / (is_workers ? "slurm-workers-%j.log" : "slurm-%j.log");
    std::vector<std::string> words = {
        "sbatch",
        "--parsable",
        "--job-name=" + submission.mark.id,
        "--comment=" + submission.mark.to_text(),
        "--chdir=" + submission.folder.string(),
        "--output=" + log.string(),
        "--open-mode=append",
        fmt::format("--nodes={}", nodes_of(submission)),
        "--ntasks-per-node=1",
        fmt::format("--cpus-per-task={}", has_ranks ? job.ranks_per_node * job.cpus_per_rank : 1),
    };
    const auto partition = partition_of(submission);
    if (!partition.empty()) words.push_back("--partition=" + partition);
    if (!job.priority.empty() && job.priority != "high" && job.priority != "low")
      words.push_back("--priority=" + job.priority);
    if (job.time) words.push_back("--time=" + format_time_limit(*job.time));
    // As a span, since clocks show some moments twice.
    if (!job.begin.empty() && !is_workers)
      words.push_back(
          fmt::format("--begin=now+{}",
                      std::max<Time>(0, parse_time(job.begin, "--begin") - std::time(nullptr))));
    if (!job.deadline.empty() && !is_workers)
      words.push_back("--deadline=" +
                      format_local(parse_time(job.deadline, "--deadline"), "%Y-%m-%dT%H:%M:%S"));
    if (!submission.after.empty()) {
      words.push_back("--dependency=afterok:" + submission.after);
      words.emplace_back("--kill-on-invalid-dep=yes");
    }
    // Workers are replaced by their coordinator; one node's death is not the others'.
    words.emplace_back(is_workers ? "--no-requeue" : "--requeue");
    if (is_workers) words.emplace_back("--no-kill");
    words.insert(words.end(), settings_.sbatch.begin(), settings_.sbatch.end());
    if (has_ranks) words.insert(words.end(), job.engine_options.begin(), job.engine_options.end());
    return words;
  }

  // What the batch script replaces itself by is what Slurm's signals to it reach.
  std::string script(const Submission& submission) const {
    const auto program = shell_word(own_program());
    const auto folder = shell_word(submission.folder.string());
    std::string text = "#!/bin/sh\n";
    if (!settings_.slurm_conf.empty())
      text += "export SLURM_CONF=" + shell_word(settings_.slurm_conf) + "\n";
    text += "export SULLAE_CLUSTER=" + shell_word(settings_.folder.string()) + "\n";
    text += "export SULLAE_JOBS=" + shell_word(settings_.jobs.string()) + "\n";
    const std::string step =
        "srun --no-kill --kill-on-bad-exit=0 --cpus-per-task=" +
        fmt::to_string(submission.job.ranks_per_node * submission.job.cpus_per_rank) + " " +
        program + " jobs work " + folder;
    if (submission.mark.role == Role::workers)
      return text + fmt::format("exec {} --attempt {}\n", step, submission.attempt);
    if (!submission.job.is_elastic()) text += step + " &\n";
    return text + "exec " + program + " jobs coordinate " + folder + "\n";
  }

  Settings settings_;
};

}  // namespace

std::unique_ptr<Engine> make_slurm_engine(const Settings& settings) {
  return std::make_unique<SlurmEngine>(settings);
}

}  // namespace sullae::cluster
