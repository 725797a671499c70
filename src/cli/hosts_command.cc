#include <fmt/format.h>

#include <algorithm>

#include "base/split.h"
#include "cli/commands.h"
#include "launch/elastic/host_list.h"
#include "sullae/error.h"

namespace sullae::cli {
namespace {

class HostsCommand final : public Command {
 public:
  CLI::App* declare(CLI::App& program) override {
    app_ =
        program.add_subcommand("hosts", "Give a running elastic job more hosts, or take some away");
    app_->require_subcommand(1);
    list_ = app_->add_subcommand(
        "list", "The jobs on this machine whose hosts can be changed, or one's hosts");
    list_->add_option("job", job_, "The process id of its sullae run")->type_name("JOB");
    add_ = app_->add_subcommand("add", "Ranks start there, up to --max-np");
    remove_ = app_->add_subcommand("remove", "Ranks there go after the step");
    for (CLI::App* const one : {add_, remove_})
      one->add_option("job", job_, "The process id of its sullae run")
          ->required()
          ->type_name("JOB");
    add_->add_option("hosts", hosts_, "node3:4,node4:4")->required()->type_name("HOST:SLOTS,...");
    remove_->add_option("hosts", hosts_, "node3,node4")->required()->type_name("HOST,...");
    app_->footer(
        "For jobs that were started with --min-np or --max-np and with -H or --hostfile, on the "
        "machine where sullae run is.");
    return app_;
  }

  int run() override {
    if (add_->parsed()) {
      elastic::add_hosts(job_, parse_hosts(hosts_, "HOSTS"));
      print(job_);
    } else if (remove_->parsed()) {
      std::vector<std::string> names;
      for (const auto& word : split(hosts_, ',')) {
        // More colons are an address of version 6.
        if (std::ranges::count(word, ':') == 1)
          throw InputError(
              fmt::format("remove {}: hosts go with all their slots: expected names "
                          "alone",
                          hosts_));
      }
      for (const Host& host : parse_hosts(hosts_, "HOSTS")) names.push_back(host.name);
      elastic::remove_hosts(job_, names);
      print(job_);
    } else if (job_.empty()) {
      for (const auto& job : elastic::jobs_with_host_lists()) print(job);
    } else {
      for (const Host& host : elastic::hosts_of_job(job_))
        fmt::print("{}:{}\n", host.name, host.slots);
    }
    return 0;
  }

 private:
  static void print(const std::string& job) {
    fmt::print("{} ", job);
    for (const Host& host : elastic::hosts_of_job(job)) fmt::print(" {}:{}", host.name, host.slots);
    fmt::print("\n");
  }

  CLI::App* app_ = nullptr;
  CLI::App* list_ = nullptr;
  CLI::App* add_ = nullptr;
  CLI::App* remove_ = nullptr;
  std::string job_;
  std::string hosts_;
};

}  // namespace

std::unique_ptr<Command> make_hosts_command() { return std::make_unique<HostsCommand>(); }

}  // namespace sullae::cli
