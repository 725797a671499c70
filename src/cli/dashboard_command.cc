#include <fmt/format.h>

#include "base/end_signals.h"
#include "base/host.h"
#include "base/log.h"
#include "cli/commands.h"
#include "cli/http_options.h"
#include "cli/validators.h"
#include "dashboard/dashboard.h"

namespace sullae::cli {
namespace {

class DashboardCommand final : public Command {
 public:
  CLI::App* declare(CLI::App& program) override {
    CLI::App* app = program.add_subcommand(
        "dashboard", "Pages over runs, jobs, pipelines and models, in a browser");
    app->option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    app->add_option(
           "DIR", options_.folder,
           "The folder below which runs (--run-dir of `sullae train`), pipelines and model "
           "repositories are")
        ->capture_default_str()
        ->type_name("");
    app->add_option("--host", options_.host,
                    "The address to listen at; with another than this machine's own a token is "
                    "needed, and printed")
        ->capture_default_str()
        ->type_name("ADDRESS");
    app->add_option("--port", options_.port, "The port; 0: any that is free")
        ->check(port())
        ->capture_default_str()
        ->type_name("PORT");
    app->add_option("--tokens-file", options_.tokens_file,
                    "Bearer tokens with roles, as `sullae serve` has them (TOML); read is enough")
        ->check(CLI::ExistingFile)
        ->type_name("FILE");
    app->add_flag(
        "--token", options_.draws_token,
        "Draw a token for this machine's own address, too, and print it: where others have "
        "accounts here");
    add_allowed_hosts(*app, options_.allowed_hosts);
    add_tls_options(*app, options_.tls_certificate, options_.tls_key);
    app->footer(
        "Jobs are those of SULLAE_CLUSTER, ~/.sullae/cluster, or else the site's Slurm.\n"
        "Nothing is written. docs/dashboard.md says what is shown.");
    return app;
  }

  int run() override {
    EndSignals signals;
    dashboard::Dashboard dashboard(options_);
    const bool is_everywhere = options_.host == "0.0.0.0" || options_.host == "::";
    const auto host = is_everywhere ? host_name() : host_in_url(options_.host);
    fmt::print("dashboard of {} at {}://{}:{}/{}\n", options_.folder.string(),
               options_.tls_certificate.empty() ? "http" : "https", host, dashboard.port(),
               dashboard.token().empty() ? "" : "#token=" + dashboard.token());
    std::fflush(stdout);
    if (!dashboard.token().empty() && options_.tls_certificate.empty() && !options_.draws_token)
      log::warning("without --tls-cert the token, and all that is shown, can be read on the way");
    while (!signals.come_within(std::chrono::seconds{1})) {
    }
    return 0;
  }

 private:
  dashboard::Options options_;
};

}  // namespace

std::unique_ptr<Command> make_dashboard_command() { return std::make_unique<DashboardCommand>(); }

}  // namespace sullae::cli
