#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>

#include "base/counted.h"
#include "cli/commands.h"
#include "cli/open_cluster.h"
#include "cli/validators.h"
#include "cluster/slurm/private_cluster.h"
#include "sullae/error.h"

namespace sullae::cli {
namespace {

using cluster::Settings;

class ClusterCommand final : public Command {
 public:
  CLI::App* declare(CLI::App& program) override {
    app_ = program.add_subcommand(
        "cluster",
        "A Slurm of your own on this machine, for `sullae jobs`: start it, look at it, end it");
    app_->require_subcommand(1);
    up_ = app_->add_subcommand(
        "up", "Start it: nodes start when jobs want them, and stop when they are idle");
    up_->add_option("--nodes", options_.nodes, "How many nodes it has at most")
        ->check(integer_from(1, 64))
        ->capture_default_str()
        ->type_name("N");
    up_->add_option("--cpus", options_.cpus,
                    "Processors that each node counts; all share this machine's")
        ->check(integer_from(1, 256))
        ->capture_default_str()
        ->type_name("N");
    up_->add_option("--idle", idle_, "Seconds after which an idle node stops")
        ->check(positive_integer())
        ->capture_default_str()
        ->type_name("SECONDS");
    status_ = app_->add_subcommand("status", "Its daemons, nodes and jobs");
    down_ = app_->add_subcommand("down",
                                 "Cancel its jobs and end its daemons; the folders of jobs stay");
    for (CLI::App* const one : {up_, status_, down_}) {
      one->add_option("--folder", folder_,
                      "Where it is; by default SULLAE_CLUSTER, or ~/.sullae/cluster")
          ->type_name("DIR");
    }
    app_->footer("With a site's Slurm none of this is needed: sullae jobs talks to it.");
    return app_;
  }

  int run() override {
    const auto folder =
        folder_.empty() ? cluster::cluster_folder() : std::filesystem::absolute(folder_);
    if (up_->parsed()) return up(folder);
    if (down_->parsed()) return down(folder);
    return status(folder);
  }

 private:
  int up(const std::filesystem::path& folder) {
    options_.folder = folder;
    options_.idle = std::chrono::seconds{idle_};
    start_private_cluster(options_);
    fmt::print("a cluster of {} is up in {}\n", counted(options_.nodes, "node"), folder.string());
    if (folder != cluster::cluster_folder())
      fmt::print("  export SULLAE_CLUSTER={}\n", folder.string());
    fmt::print(
        "  sullae jobs submit --min-nodes 1 --max-nodes {} -- sullae train mnist\n"
        "  sullae cluster status\n"
        "  sullae cluster down\n",
        options_.nodes);
    return 0;
  }

  static int down(const std::filesystem::path& folder) {
    const Settings settings = cluster::read_settings(folder);
    const auto daemons = cluster::running_daemons(folder);
    if (!settings.is_private && daemons.empty())
      throw InputError(fmt::format("no private cluster runs in {}", folder.string()));
    cancel_jobs(settings);
    stop_private_cluster(settings);
    fmt::print("the cluster in {} is down{}\n", folder.string(),
               std::filesystem::exists(settings.jobs)
                   ? "; its jobs' folders are in " + settings.jobs.string()
                   : "");
    return 0;
  }

  // So that each has its result. What cannot be asked is ended all the same.
  static void cancel_jobs(const Settings& settings) {
    try {
      if (settings.is_private && !cluster::running_daemons(settings.folder).empty())
        cluster::mend_private_cluster(settings);
      const auto engine = cluster::make_engine("slurm", settings);
      cluster::Jobs jobs(settings, *engine);
      print_warnings(jobs.end_all());
    } catch (const Error& error) {
      fmt::print(stderr, "sullae cluster: {}\n", error.what());
    }
  }

  static int status(const std::filesystem::path& folder) {
    const Settings settings = cluster::read_settings(folder);
    if (settings.is_private) {
      const auto daemons = cluster::running_daemons(folder);
      fmt::print("private cluster in {}: {}\n", folder.string(),
                 daemons.empty() ? "none of its daemons runs; sullae cluster up starts it again"
                                 : fmt::format("{} run", fmt::join(daemons, ", ")));
      if (daemons.empty()) return 1;
      if (const auto missing = cluster::missing_daemons(folder); !missing.empty()) {
        fmt::print("{} {} not: sullae cluster down, and up, start it anew\n",
                   fmt::join(missing, " and "), missing.size() == 1 ? "does" : "do");
        return 1;
      }
    } else {
      fmt::print("no private cluster in {}: the site's Slurm\n", folder.string());
    }
    const auto engine = cluster::make_engine("slurm", settings);
    print_nodes(engine->nodes());
    fmt::print("\n");
    cluster::Jobs jobs(settings, *engine);
    print_jobs(views_of(jobs), JobFilter::active);
    return 0;
  }

  CLI::App* app_ = nullptr;
  CLI::App* up_ = nullptr;
  CLI::App* status_ = nullptr;
  CLI::App* down_ = nullptr;
  cluster::PrivateClusterOptions options_;
  int idle_ = 60;
  std::string folder_;
};

}  // namespace

std::unique_ptr<Command> make_cluster_command() { return std::make_unique<ClusterCommand>(); }

}  // namespace sullae::cli
