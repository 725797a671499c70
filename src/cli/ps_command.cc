#include <fmt/format.h>
#include <malloc.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <exception>
#include <optional>
#include <thread>

#include "base/end_signals.h"
#include "base/environment.h"
#include "base/host.h"
#include "cli/commands.h"
#include "cli/validators.h"
#include "launch/ended_ranks.h"
#include "launch/job_signals.h"
#include "ps/endpoints.h"
#include "sullae/ps/server.h"
#include "transport/tf_config.h"

namespace sullae::cli {
namespace {

// Between two looks at whether the server has ended by itself.
constexpr std::chrono::milliseconds kLook{100};

// Messages of some megabytes come and go at every step. Were their memory given back to the system
// each time, its fresh pages would cost as much as what is done with them.
void keep_freed_messages() {
  constexpr int kMapped = 64 << 20;
  constexpr int kKept = 256 << 20;
  ::mallopt(M_MMAP_THRESHOLD, kMapped);
  ::mallopt(M_TRIM_THRESHOLD, kKept);
}

// Of an address as it is bound: sockets that take both kinds say all in IPv6's words.
std::string as_workers_name(const std::string& bound) {
  const std::string port = bound.substr(bound.rfind(':'));
  const std::string mapped = "tcp://[::ffff:";
  if (bound.starts_with(mapped))
    return "tcp://" + bound.substr(mapped.size(), bound.find(']') - mapped.size()) + port;
  const bool is_any = bound == "tcp://[::]" + port || bound == "tcp://0.0.0.0" + port;
  return is_any ? "tcp://" + host_name() + port : bound;
}

// For tasks that all have the same command line.
int staleness_of(const Environment& environment) {
  std::string text = "0";
  read_text(environment, "SULLAE_PS_STALENESS", text);
  return static_cast<int>(parse_integer(text, "SULLAE_PS_STALENESS", -1, 1 << 30));
}

class PsCommand final : public Command {
 public:
  CLI::App* declare(CLI::App& program) override {
    CLI::App* app = program.add_subcommand(
        "ps", "Be a parameter server, of workers that `sullae run --ps` has not started");
    workers_ = app->add_option("--workers", options_.workers,
                               "Workers that are expected; more may come later")
                   ->check(positive_integer())
                   ->type_name("N");
    staleness_ =
        app->add_option(
               "--staleness", options_.staleness,
               "Steps that a worker may be ahead of the slowest; 0: all step together, -1: any")
            ->check(integer_from(-1))
            ->capture_default_str()
            ->type_name("STEPS");
    listen_ = app->add_option("--listen", options_.endpoint, "Address and port; * is all, or any")
                  ->capture_default_str()
                  ->type_name("ADDRESS");
    app->add_flag("--end-with-workers", options_.ends_with_workers,
                  "End when all of them have come and left");
    app->add_option("--lease", lease_,
                    "A worker of which nothing is heard for so long is waited for no more")
        ->check(number(Zero::refused))
        ->capture_default_str()
        ->type_name("SECONDS");
    app->add_option("--state", options_.state_file,
                    "Save what it holds in FILE, and go on from there where the file is")
        ->type_name("FILE");
    app->add_option("--save-every", save_every_, "Seconds between a change and FILE")
        ->check(number(Zero::allowed))
        ->capture_default_str()
        ->needs("--state")
        ->type_name("SECONDS");
    // Of `sullae run --ps`, whose store tells workers where the server is.
    app->add_option("--index", index_)->group("");
    app->add_option("--host", host_)->group("");
    app->footer(
        "Workers are given the addresses of all servers in SULLAE_PS_SERVERS, divided by commas.\n"
        "Without --workers, --listen and --staleness a task of TensorFlow's TF_CONFIG takes them "
        "from there,\nand the staleness from SULLAE_PS_STALENESS.");
    return app;
  }

  int run() override {
    const Environment environment = process_environment();
    const ps::Registration registration(environment, index_);
    const bool registers = index_ >= 0 && registration.is_in_a_job();
    read_text(environment, "SULLAE_JOB_SECRET", options_.secret);
    if (staleness_->count() == 0) options_.staleness = staleness_of(environment);
    options_.lease = to_milliseconds(lease_);
    options_.save_every = to_milliseconds(save_every_);
    if (registers) {
      options_.endpoint = registration.where();
    } else {
      take_tf_config(environment);
    }
    const EndSignals ends;
    keep_freed_messages();
    ps::Server server(options_);
    if (registers) {
      registration.publish(server.endpoint(), host_);
    } else {
      std::printf("parameter server at %s\n", as_workers_name(server.endpoint()).c_str());
      std::fflush(stdout);
    }
    std::optional<EndedRanks> ended;
    if (registers) ended.emplace(environment, [&](int worker) { server.worker_ended(worker); });
    std::exception_ptr failed;
    std::atomic<bool> is_over = false;
    std::jthread serving([&] {
      block_signals();
      try {
        server.run();
      } catch (const std::exception&) {  // rethrown by the thread that waits for signals
        failed = std::current_exception();
      }
      is_over = true;
    });
    while (!is_over && !ends.come_within(kLook)) {
    }
    server.stop();
    serving.join();
    if (failed) std::rethrow_exception(failed);
    return 0;
  }

 private:
  // What the command line does not say.
  void take_tf_config(const Environment& environment) {
    const auto config = tf_config(environment);
    const bool is_task = config && config->task == TfConfig::Task::parameter_server;
    if (workers_->count() == 0 && !is_task)
      throw InputError("--workers is missing: expected how many there are");
    if (!is_task) return;
    if (workers_->count() == 0) options_.workers = static_cast<int>(config->ranks.size());
    const std::string& address = config->servers[static_cast<std::size_t>(config->index)];
    if (listen_->count() == 0) options_.endpoint = "tcp://*" + address.substr(address.rfind(':'));
  }

  ps::ServerOptions options_{.endpoint = "tcp://*:*"};
  CLI::Option* workers_ = nullptr;
  CLI::Option* listen_ = nullptr;
  CLI::Option* staleness_ = nullptr;
  double lease_ = 10;
  double save_every_ = 10;
  int index_ = -1;
  std::string host_;
};

}  // namespace

std::unique_ptr<Command> make_ps_command() { return std::make_unique<PsCommand>(); }

}  // namespace sullae::cli
