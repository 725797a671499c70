// init() and the one world that it joins: the only state of this process that Sullae keeps outside
// objects.
#include "launch/init.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <utility>

#include "base/environment.h"
#include "launch/blas_kernels.h"
#include "launch/elastic/member.h"
#include "launch/environment.h"
#include "sullae/sullae.h"
#include "transport/settings.h"
#include "transport/store/store_server.h"

namespace sullae {
namespace {

struct Default {
  // Held while a world is joined, which an interruption may end: what it runs may ask for the
  // world, or shut it down. Before the other one.
  std::mutex joining;
  // Lives until the process ends: another rank may join its next world before this one does.
  std::unique_ptr<StoreServer> store_server;
  int worlds = 0;  // joined so far

  std::mutex mutex;  // guards all below
  std::optional<World> world;
  bool leaves_at_exit = false;
  pid_t process = 0;  // that has joined: a fork of it has no threads, and is no rank
};

Default& default_world() {
  static auto* const instance = new Default;
  return *instance;
}

// A launcher reads the output through a pipe: whole lines as they are written, and none lost when a
// rank is killed.
void write_whole_lines() { std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ); }

void leave_at_exit() {
  if (default_world().process != ::getpid()) return;
  shutdown();
  Default& state = default_world();
  const std::lock_guard lock(state.joining);
  if (state.store_server) state.store_server->drain();
  state.store_server.reset();
}

// As the launcher's variables say. With `joining` held.
World join(Default& state) {
  WorldOptions options = detect_world(process_environment());
  options.generation = state.worlds++;
  if (options.serve_store && options.rank == 0 && options.size > 1) {
    if (!state.store_server)
      state.store_server =
          std::make_unique<StoreServer>(StoreAddress::parse(options.store),
                                        RendezvousSettings::from(process_environment()).job_secret);
    options.serve_store = false;
  }
  if (options.size > 1) write_whole_lines();
  if (options.rank == 0) warn_of_missed_blas_kernels();
  return create_job_world(options);
}

World keep(Default& state, World world) {
  const std::lock_guard lock(state.mutex);
  state.world = std::move(world);
  if (!state.leaves_at_exit) std::atexit(leave_at_exit);
  state.leaves_at_exit = true;
  state.process = ::getpid();
  return *state.world;
}

std::optional<World> joined(Default& state) {
  const std::lock_guard lock(state.mutex);
  return state.world;
}

}  // namespace

World init() {
  if (elastic::Member* const member = elastic::Member::of_this_process()) {
    const auto world = elastic::join_default_world(*member);
    if (!world) throw Error("init: this process was asked to end before it joined a world");
    return *world;
  }
  Default& state = default_world();
  const std::lock_guard lock(state.joining);
  if (auto world = joined(state)) return *std::move(world);
  return keep(state, join(state));
}

std::optional<World> elastic::join_default_world(Member& member) {
  Default& state = default_world();
  const std::lock_guard lock(state.joining);
  if (auto world = joined(state)) return world;
  write_whole_lines();
  auto world = member.join();
  if (world) keep(state, *world);
  return world;
}

World join_anew(const WorldOptions& options) {
  shutdown();
  Default& state = default_world();
  const std::lock_guard lock(state.joining);
  return keep(state, create_job_world(options));
}

void shutdown() {
  Default& state = default_world();
  std::optional<World> leaving;
  {
    const std::lock_guard lock(state.mutex);
    leaving.swap(state.world);
  }
  if (leaving) leaving->leave();
}

bool is_initialized() { return joined(default_world()).has_value(); }

World world() {
  auto world = joined(default_world());
  if (!world) throw InputError("init() has not been called");
  return *std::move(world);
}

}  // namespace sullae
