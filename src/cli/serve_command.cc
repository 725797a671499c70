#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <optional>

#include "base/end_signals.h"
#include "base/log.h"
#include "cli/commands.h"
#include "cli/http_options.h"
#include "cli/online_process.h"
#include "cli/other_commands.h"
#include "cli/validators.h"
#include "storage/storage.h"
#include "sullae/serve.h"

namespace sullae::cli {
namespace {

class ServeCommand final : public Command {
 public:
  CLI::App* declare(CLI::App& program) override {
    CLI::App* app = program.add_subcommand("serve", description_of("serve"));
    app->option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    app->add_option(
           "repository", options_.repository,
           "The model repository: DIR/<model>/<version>/ with model.ckpt (from `sullae "
           "train --export`), model.pt (TorchScript) or model.pt2 (AOTInductor); in a store, "
           "s3://… or webhdfs://…, it is copied")
        ->required()
        ->type_name("DIR");
    copy_ = app->add_option("--repository-copy", options_.repository_copy,
                            "Where models of a store are copied to; by default a folder of "
                            "$XDG_CACHE_HOME, or ~/.cache")
                ->type_name("DIR");
    app->add_option("--host", options_.host, "The address to listen at")
        ->capture_default_str()
        ->type_name("ADDRESS");
    app->add_option("--http-port,--port", options_.http_port, "Port of HTTP; 0: any that is free")
        ->check(port())
        ->capture_default_str()
        ->type_name("PORT");
    app->add_option("--grpc-port", options_.grpc_port, "Port of gRPC; 0: any that is free")
        ->check(port())
        ->capture_default_str()
        ->type_name("PORT");
    app->add_option("--http-threads", options_.http_threads,
                    "Threads that read requests; 0: one a processor")
        ->check(integer_from(0, 1024))
        ->capture_default_str()
        ->type_name("N");
    poll_ = app->add_option("--repository-poll-secs", poll_seconds_,
                            "Seconds between looks for new versions; of a store 15 by default")
                ->check(number(Zero::refused))
                ->capture_default_str()
                ->type_name("SECONDS");
    app->add_option(
           "--tokens-file", options_.tokens_file,
           "Bearer tokens with roles (TOML): [[token]] name, role = read, infer or operate, "
           "token")
        ->check(CLI::ExistingFile)
        ->type_name("FILE");
    add_tls_options(*app, options_.tls_certificate, options_.tls_key);
    app->add_option("--max-body-megabytes", max_body_megabytes_,
                    "Longer requests are refused (413)")
        ->check(positive_integer())
        ->capture_default_str()
        ->type_name("MB");
    app->add_option(
           "--max-inflight-megabytes", max_inflight_megabytes_,
           "Memory for all HTTP requests that are read or answered; more are refused (503)")
        ->check(positive_integer())
        ->capture_default_str()
        ->type_name("MB");
    add_allowed_hosts(*app, options_.allowed_hosts);
    app->add_option("--max-connections", options_.max_connections, "More are refused (503)")
        ->check(positive_integer())
        ->capture_default_str()
        ->type_name("N");
    app->add_option("--read-timeout", read_seconds_,
                    "Seconds that a client may take to send a request, and to take each part of an "
                    "answer")
        ->check(number(Zero::refused))
        ->capture_default_str()
        ->type_name("SECONDS");
    app->add_option("--drain-timeout", drain_seconds_,
                    "Seconds that requests get to end after SIGTERM or Ctrl-C")
        ->check(number(Zero::allowed))
        ->capture_default_str()
        ->type_name("SECONDS");
    auto* online = app->add_flag(
        "--online", online_,
        "Also run `sullae online`: train on the samples that operators correct, publish what is "
        "better");
    app->add_option("--online-ranks", online_ranks_, "Processes that train together")
        ->needs(online)
        ->check(positive_integer())
        ->capture_default_str()
        ->type_name("N");
    return app;
  }

  int run() override {
    const bool is_remote = storage::is_remote(options_.repository);
    if (!is_remote && copy_->count() > 0)
      throw InputError(
          fmt::format("--repository-copy: {} is in no store, and is served where it is",
                      options_.repository.string()));
    if (is_remote && online_)
      throw InputError(
          "--online: publishes versions beside those that are served: expected a folder of this "
          "host, and no store");
    if (is_remote && poll_->count() == 0) poll_seconds_ = kStorePoll;
    options_.poll = to_milliseconds(poll_seconds_);
    options_.read_timeout = to_milliseconds(read_seconds_);
    options_.drain_timeout = to_milliseconds(drain_seconds_);
    options_.max_body_bytes = static_cast<std::size_t>(max_body_megabytes_) << 20;
    options_.max_inflight_bytes = static_cast<std::size_t>(max_inflight_megabytes_) << 20;
    // Models may take minutes to load: whoever ends it meanwhile is not kept waiting.
    end_at_once_on_signals();
    InferenceServer server(options_);
    EndSignals signals;
    const char* const scheme = options_.tls_certificate.empty() ? "http" : "https";
    const auto host = host_in_url(options_.host);
    fmt::print("serving {} at {}://{}:{}/ and gRPC at {}:{}\n", options_.repository.string(),
               scheme, host, server.http_port(), host, server.grpc_port());
    std::fflush(stdout);
    std::optional<OnlineProcess> online;
    if (online_) online.emplace(options_.repository.string(), online_ranks_);
    while (!signals.come_within(std::chrono::seconds{1})) {
      if (online) online->watch();
    }
    online.reset();
    log::info("stopping: requests that have begun are answered first");
    // A second one ends it at once.
    signals.let_go();
    if (!server.stop()) {
      // What is still being computed nobody waits for any more, and it may never end.
      std::fflush(nullptr);
      ::_exit(EXIT_FAILURE);
    }
    return 0;
  }

 private:
  // Each look costs a few requests for each model.
  static constexpr double kStorePoll = 15;

  ServeOptions options_;
  CLI::Option* copy_ = nullptr;
  CLI::Option* poll_ = nullptr;
  double poll_seconds_ = 1;
  double read_seconds_ = 30;
  double drain_seconds_ = 30;
  int max_body_megabytes_ = 64;
  int max_inflight_megabytes_ = 512;
  bool online_ = false;
  int online_ranks_ = 1;
};

}  // namespace

std::unique_ptr<Command> make_serve_command() { return std::make_unique<ServeCommand>(); }

}  // namespace sullae::cli
