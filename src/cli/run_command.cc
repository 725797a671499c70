#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "base/environment.h"
#include "base/file.h"
#include "base/number.h"
#include "cli/commands.h"
#include "cli/nearest_option.h"
#include "cli/validators.h"
#include "launch/elastic/discovery.h"
#include "launch/elastic/host_list.h"
#include "launch/launcher.h"
#include "launch/remote_shell.h"
#include "sullae/error.h"

namespace sullae::cli {
namespace {

constexpr int kMostServers = 1000;

void require_writable(const std::filesystem::path& folder, const char* flag) {
  if (const auto error = make_writable(folder))
    throw InputError(fmt::format("{} {}: nothing can be written there: {}", flag, folder.string(),
                                 error.message()));
}

class RunCommand final : public Command {
 public:
  CLI::App* declare(CLI::App& program) override {
    app_ = program.add_subcommand("run",
                                  "Start a program as the ranks of a job:\n  sullae run -np N "
                                  "[OPTIONS] PROGRAM [ARGUMENTS...]");
    CLI::App& app = *app_;
    // Everything from the first word that is no option belongs to the program.
    app.prefix_command();
    app.add_option("-n,--np", ranks_,
                   "Number of ranks (also -np); by default one a slot of the hosts")
        ->check(positive_integer())
        ->type_name("N");
    app.add_option(
           "-H,--host", hosts_,
           "Hosts and their slots: node1:4,node2:4; others than this one are reached by ssh")
        ->type_name("HOST:SLOTS,...");
    app.add_option("--hostfile", hostfile_, "File with a host a line: node1 slots=4")
        ->type_name("FILE")
        ->excludes("--host");
    app.add_option("--env", environment_,
                   "Variable for every rank; without a value, this environment's. May be repeated")
        ->type_name("NAME[=VALUE]")
        ->allow_extra_args(false);
    app.add_option("--timeout", timeout_,
                   "End the job when it has run this long, restarts and all (exit code 124)")
        ->check(number(Zero::refused))
        ->type_name("SECONDS");
    app.add_option("--timeline", timeline_,
                   "Record what every rank does in FILE, for Perfetto and `sullae timeline`")
        ->type_name("FILE");
    app.add_flag("--autotune", autotune_,
                 "Try settings of the engine while the job runs, and keep the best");
    app.add_option("--autotune-log-file", autotune_log_,
                   "Write what --autotune tries to FILE (CSV)")
        ->type_name("FILE")
        ->needs("--autotune");
    app.add_option("--output-dir", options_.output_directory,
                   "Also write each rank's output to DIR/rank-N.log")
        ->type_name("DIR");
    add_negative_flag(app, "--no-tag", options_.tag_output,
                      "Leave out the [rank] before each line");
    app.add_option("--cpus-per-rank", options_.cpus_per_rank,
                   "Processors and threads of each rank; by default an equal share")
        ->check(positive_integer())
        ->type_name("N");
    app.add_option("--bind-to", bind_to_, "Bind each rank to its processors, or to none")
        ->check(CLI::IsMember({"core", "none"}))
        ->capture_default_str();
    app.add_option("--rsh", options_.remote_shell, "Program that runs a command on another host")
        ->capture_default_str()
        ->type_name("CMD");
    app.add_option("--connect-timeout", connect_timeout_, "How long a host may take to answer")
        ->check(number(Zero::refused))
        ->capture_default_str()
        ->type_name("SECONDS");
    app.add_option("--store-host", options_.store_host,
                   "Name or address of this host as the other hosts see it")
        ->type_name("HOST");
    app.add_option("--store-port", options_.store_port,
                   "Port of the rendezvous store; by default a free one")
        ->check(integer_from(1, 65535))
        ->type_name("PORT");
    app.add_option("--restarts", options_.restarts,
                   "Start the job again from its beginning when it fails, so often")
        ->check(integer_from(0))
        ->capture_default_str()
        ->type_name("N");
    declare_elastic(app);
    declare_servers(app);
    app.footer(
        "The first rank that fails ends the others and decides the exit code: its own, or 128 + "
        "the signal that killed it.\n"
        "With --min-np or --max-np the others go on without it, and a rank that can be had takes "
        "its place: programs that use\nsullae::elastic, and sullae train.\n"
        "With --ps the others go on without any but rank 0, and a server that is killed is started "
        "again: programs that use\nsullae::ps.\n"
        "Ctrl-C ends all ranks; once more kills them. No process is left behind.");
    return app_;
  }

  int run() override {
    options_.command = app_->remaining();
    if (options_.command.empty())
      throw InputError("no program given: sullae run -np N PROGRAM [ARGUMENTS...]");
    if (options_.command.front().starts_with('-')) {
      throw UsageError(describe_unknown(*app_, options_.command.front(), "sullae run"));
    }
    // This very program, whether it is in PATH or not.
    if (options_.command.front() == "sullae") options_.command.front() = own_program();
    if (!hosts_.empty()) options_.hosts = parse_hosts(hosts_);
    if (!hostfile_.empty()) options_.hosts = read_hostfile(hostfile_);
    if (ranks_ == 0 && options_.hosts.empty()) ranks_ = elastic_.min_ranks;
    if (ranks_ == 0 && options_.hosts.empty())
      throw InputError("how many ranks? Give -np N, or hosts with slots (-H, --hostfile)");
    if (ranks_ == 0) {
      for (const Host& host : options_.hosts) ranks_ += host.slots;
    }
    options_.ranks = ranks_;
    for (const auto& entry : environment_) {
      const auto [name, value] = variable_of(entry);
      options_.environment[name] = value;
    }
    if (!timeline_.empty()) {
      const auto file = std::filesystem::absolute(timeline_);
      require_writable(file.parent_path(), "--timeline");
      options_.environment["SULLAE_TIMELINE"] = file.string();
    }
    if (autotune_) options_.environment["SULLAE_AUTOTUNE"] = "1";
    if (!autotune_log_.empty())
      options_.environment["SULLAE_AUTOTUNE_LOG"] =
          std::filesystem::absolute(autotune_log_).string();
    options_.timeout = to_milliseconds(timeout_);
    options_.connect_timeout = to_milliseconds(connect_timeout_);
    options_.bind = bind_to_ == "core";
    if (app_->count("--discover") > 0 && discover_.empty())
      throw InputError("--discover: is empty: expected a command");
    if (elastic_.min_ranks > 0 || elastic_.max_ranks > 0 || !discover_.empty()) {
      set_elastic();
    } else {
      check_not_elastic();
    }
    if (parameter_servers_ > 0) {
      if (options_.elastic)
        throw InputError(
            "--ps with --min-np, --max-np or --discover: expected one of them; workers of "
            "parameter "
            "servers may end without them");
      if (!servers_directory_.empty()) {
        servers_directory_ = std::filesystem::absolute(servers_directory_);
        require_writable(servers_directory_, "--ps-dir");
      }
      options_.parameter_servers = {
          .count = parameter_servers_, .staleness = staleness_, .directory = servers_directory_};
    }
    return run_job(options_);
  }

 private:
  void declare_elastic(CLI::App& app) {
    app.add_option("--min-np", elastic_.min_ranks,
                   "Elastic: go on as long as there are so many ranks, whoever comes and goes")
        ->check(positive_integer())
        ->type_name("N")
        ->group("Elastic jobs");
    app.add_option("--max-np", elastic_.max_ranks, "Elastic: grow up to so many; by default -np")
        ->check(positive_integer())
        ->type_name("N")
        ->group("Elastic jobs");
    app.add_option("--discover", discover_,
                   "Elastic: command that prints the hosts, a line each (node1:4); run each second")
        ->type_name("CMD")
        ->excludes("--host")
        ->excludes("--hostfile")
        ->group("Elastic jobs");
    app.add_option("--cooldown", cooldown_,
                   "Elastic: seconds that a host that lost a rank gets no other, at first and at "
                   "most, doubling")
        ->capture_default_str()
        ->type_name("FIRST:LAST")
        ->group("Elastic jobs");
    app.add_option("--reset-limit", elastic_.reset_limit,
                   "Elastic: fail after so many changes of the ranks; by default never")
        ->check(integer_from(0))
        ->type_name("N")
        ->group("Elastic jobs");
    app.add_option("--elastic-timeout", elastic_timeout_,
                   "Elastic: how long to wait for --min-np ranks")
        ->check(number(Zero::refused))
        ->capture_default_str()
        ->type_name("SECONDS")
        ->group("Elastic jobs");
  }

  void declare_servers(CLI::App& app) {
    app.add_option("--ps", parameter_servers_,
                   "Parameter servers to start beside the ranks, which are their workers")
        ->check(integer_from(1, kMostServers))
        ->type_name("N")
        ->group("Parameter servers");
    app.add_option("--staleness", staleness_,
                   "Steps that a worker may be ahead of the slowest; 0: all step together, -1: any")
        ->check(integer_from(-1))
        ->capture_default_str()
        ->needs("--ps")
        ->type_name("STEPS")
        ->group("Parameter servers");
    app.add_option("--ps-dir", servers_directory_,
                   "Where servers save what they hold every 10 s, and go on from")
        ->needs("--ps")
        ->type_name("DIR")
        ->group("Parameter servers");
  }

  // Of flags that are for elastic jobs alone.
  void check_not_elastic() const {
    for (const char* const flag : {"--cooldown", "--reset-limit", "--elastic-timeout"}) {
      if (app_->count(flag) > 0)
        throw InputError(fmt::format(
            "{}: is for elastic jobs: expected --min-np, --max-np or --discover with it", flag));
    }
  }

  void set_elastic() {
    JobOptions::Elastic& elastic = options_.elastic.emplace(elastic_);
    if (elastic.max_ranks == 0) elastic.max_ranks = std::max(ranks_, elastic.min_ranks);
    if (elastic.min_ranks == 0) elastic.min_ranks = 1;
    if (!discover_.empty()) elastic.source = std::make_shared<elastic::Discovery>(discover_);
    if (!options_.hosts.empty()) {
      try {
        elastic.source = std::make_shared<elastic::HostList>(options_.hosts);
      } catch (const Error& error) {
        std::fprintf(stderr, "sullae run: %s; sullae hosts cannot change this job's hosts\n",
                     error.what());
      }
    }
    if (elastic.min_ranks > ranks_)
      throw InputError(fmt::format("--min-np {} with -np {}: expected at most as many",
                                   elastic.min_ranks, ranks_));
    if (elastic.max_ranks < ranks_)
      throw InputError(fmt::format("--max-np {} with -np {}: expected at least as many",
                                   elastic.max_ranks, ranks_));
    const auto colon = cooldown_.find(':');
    const auto seconds = [&](const std::string& text) {
      const auto value = number_in<double>(text).value_or(-1);
      if (value >= 0 && value < 1e6) return to_milliseconds(value);
      throw InputError(fmt::format("--cooldown {}: expected FIRST:LAST in seconds", cooldown_));
    };
    elastic.first_cooldown = seconds(cooldown_.substr(0, colon));
    elastic.last_cooldown =
        colon == std::string::npos ? elastic.first_cooldown : seconds(cooldown_.substr(colon + 1));
    if (elastic.first_cooldown > elastic.last_cooldown)
      throw InputError(fmt::format("--cooldown {}: expected FIRST not above LAST", cooldown_));
    elastic.timeout = to_milliseconds(elastic_timeout_);
  }

  CLI::App* app_ = nullptr;
  JobOptions options_;
  int ranks_ = 0;
  std::string hosts_;
  std::string hostfile_;
  std::vector<std::string> environment_;
  std::string timeline_;
  bool autotune_ = false;
  std::string autotune_log_;
  double timeout_ = 0;
  double connect_timeout_ = 30;
  JobOptions::Elastic elastic_{.min_ranks = 0, .max_ranks = 0};
  int parameter_servers_ = 0;
  int staleness_ = 0;
  std::filesystem::path servers_directory_;
  std::string discover_;
  std::string cooldown_ = "1:100";
  double elastic_timeout_ = 600;
  std::string bind_to_ = "core";
};

}  // namespace

std::unique_ptr<Command> make_run_command() { return std::make_unique<RunCommand>(); }

}  // namespace sullae::cli
