#include "world/world_impl.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "base/descriptors.h"
#include "base/log.h"
#include "base/own_thread.h"
#include "collective/make_communicator.h"
#include "collective/messages/make_messenger.h"
#include "collective/messages/message_rendezvous.h"
#include "collective/self_communicator.h"

namespace sullae {
namespace {

void check_rank(const WorldOptions& options) {
  if (options.size < 1 || options.rank < 0 || options.rank >= options.size) {
    throw InputError(fmt::format("rank {} of a world of {}: expected 0 <= rank < size",
                                 options.rank, options.size));
  }
}

}  // namespace

std::unique_ptr<World::Impl> World::Impl::join(const WorldOptions& options) {
  check_rank(options);
  log::set_rank(options.size > 1 ? options.rank : -1);
  // Others connect to the store here.
  constexpr std::size_t kOwn = 512;
  if (options.rank == 0 && options.serve_store)
    allow_descriptors(kOwn + 4 * static_cast<std::size_t>(options.size));
  auto session = std::make_shared<Session>(options);
  Topology topology;
  if (options.size > 1) {
    const Deadline deadline(session->settings.rendezvous.timeout);
    const WorldSettings& settings = session->settings;
    topology = Topology::discover(
        *session->store, options.rank, options.size, settings.rendezvous.host_id,
        settings.collective.of_all_ranks() + settings.engine.of_all_ranks(), deadline);
  }
  session->messenger = messages::make_messenger(session->rendezvous.get(), topology,
                                                session->settings.collective, session->cut_off);
  return std::make_unique<Impl>(std::move(session), std::move(topology), "");
}

World::Impl::Impl(std::shared_ptr<Session> session, Topology topology, std::string name)
    : session_(std::move(session)),
      cut_off_(session_->cut_off),
      topology_(std::move(topology)),
      name_(std::move(name)),
      backend_(backend_of(topology_, session_->settings.collective)),
      messages_(std::make_shared<messages::Group>(session_->messenger, name_, topology_, failure_)),
      rendezvous_(session_->rendezvous),
      engine_rendezvous_(session_->rendezvous) {
  if (!is_set()) {
    // One after another, since the store answers one request at a time.
    foreground();
    planned();
    start_engine();
    engine_->wait_for_start();
  } else if (topology_.size > 1) {
    rendezvous_ = std::make_shared<messages::MessageRendezvous>(messages_, failure_);
    engine_rendezvous_ = std::make_shared<messages::MessageRendezvous>(messages_, engine_failure_);
    messages_->watch([this] { start_engine(); });
  }
}

std::unique_ptr<Communicator> World::Impl::make_channel(Channel channel) {
  std::unique_ptr<Communicator> made;
  if (topology_.size == 1) {
    made = std::make_unique<SelfCommunicator>();
  } else {
    static constexpr std::array kNames = {"", "foreground", "planned", "negotiated"};
    const auto number = static_cast<std::uint8_t>(channel);
    const bool engines = channel == Channel::negotiated;
    made = make_communicator(engines ? *engine_rendezvous_ : *rendezvous_, topology_,
                             session_->settings.collective,
                             {.name = name_ + kNames[number],
                              .number = number,
                              .buffers = buffers_,
                              .failure = engines ? engine_failure_ : failure_});
  }
  made->set_messages(messages_);
  return made;
}

Communicator& World::Impl::foreground() {
  if (!foreground_) foreground_ = make_channel(Channel::foreground);
  return *foreground_;
}

Communicator& World::Impl::planned() {
  if (!planned_) planned_ = make_channel(Channel::planned);
  return *planned_;
}

BackgroundQueue& World::Impl::queue() {
  const std::lock_guard lock(start_mutex_);
  if (starts_no_more_) check_joined();
  if (!queue_)
    queue_ = std::make_shared<BackgroundQueue>(
        topology_.size > 1 ? topology_.names[static_cast<std::size_t>(topology_.rank)] : -1);
  return *queue_;
}

// A set's engine starts on all of its ranks when one of them needs it, so that it can tell who is
// missing.
engine::Engine& World::Impl::engine() {
  {
    const std::lock_guard lock(start_mutex_);
    if (engine_) return *engine_;
  }
  start_engine();
  if (!engine_) check_joined();
  messages_->want();
  return *engine_;
}

// Does not wait for anybody: the messenger may call it.
void World::Impl::start_engine() {
  const std::lock_guard lock(start_mutex_);
  if (engine_ || starts_no_more_) return;
  engine::EngineOptions options = session_->settings.engine;
  if (is_set()) options.autotune.on = false;  // sets follow their own traffic, but there is one log
  options.set_watch = session_->set_watch;
  options.set = name_;
  options.failure = failure_;
  // Who has joined early has submitted fewer than the others.
  options.all_joined = [this] {
    for (auto& number : unnamed_) number = 0;
  };
  if (!is_set()) {
    // The world's engine always runs: sets have no thread that would hear that they are wanted.
    options.each_cycle = [messenger = session_->messenger] {
      messenger->poll();
    };
    options.at_end = [messenger = session_->messenger] {
      messenger->look_after_watched();
    };
  }
  engine_ = std::make_shared<engine::Engine>([this] { return make_channel(Channel::negotiated); },
                                             topology_.rank, timeline_, topology_.names, options);
}

// The engine tells the other ranks, which wait for this one in vain.
void World::Impl::fail(const std::exception_ptr& error) {
  // What leave() ends is no failure to the others.
  if (messages_over_) return;
  if (!failure_->set(error)) return;
  try {
    engine().fail();
  } catch (const Error& gone) {
    log::info("the other ranks were not told: {}", gone.what());
  }
}

World::Impl::~Impl() { leave(); }

void World::Impl::end(Impl* impl) {
  if (!impl->process_.is_here()) return;  // the copy of what has threads elsewhere
  if (in_own_thread || is_lent) {
    std::thread([impl] { delete impl; }).detach();
  } else {
    delete impl;
  }
}

void World::Impl::leave() {
  if (!process_.is_here()) {
    left_ = true;
    return;
  }
  if (in_own_thread || is_lent) {
    throw Error(
        "World::leave() and shutdown() wait for the threads of the world, of which a callback has "
        "one: call them in a thread of the program");
  }
  if (left_.exchange(true)) return;
  // The file is written while the others can still be reached.
  try {
    const std::lock_guard lock(foreground_mutex_);
    write_timeline();
  } catch (const std::exception& error) {
    log::warning("timeline: {}", error.what());
  } catch (...) {  // the world may have failed with anything
    log::warning("timeline: not written, since the world has failed");
  }
  {
    const std::lock_guard lock(start_mutex_);
    starts_no_more_ = true;
  }
  if (queue_) queue_->stop();
  if (engine_) engine_->let_start();
  messages_over_ = true;
  messages_->leave();
  if (engine_) engine_->leave();
  {
    const std::lock_guard lock(device_mutex_);
    if (device_ && has_failed()) device_->abandon();
    device_.reset();
  }
  const std::lock_guard lock(foreground_mutex_);
  planned_.reset();
  foreground_.reset();
  session_.reset();
}

void World::Impl::check_process() const {
  if (process_.is_here()) return;
  throw InputError(fmt::format(
      "this process is a fork of rank {}, and no rank: it may not use the world (what a "
      "DataLoader's workers do, say, is to get samples ready)",
      topology_.names[static_cast<std::size_t>(topology_.rank)]));
}

void World::Impl::check_joined() const {
  check_process();
  if (left_) {
    throw Error(
        "this rank has left the world (sullae::shutdown() or World::leave()): make optimizers, "
        "samplers and process "
        "sets anew from the world that init() joins next");
  }
}

void World::Impl::start_timeline(engine::Timeline::Place place) {
  const std::lock_guard lock(foreground_mutex_);
  check_joined();
  place.rank = topology_.names[static_cast<std::size_t>(topology_.rank)];
  timeline_.start(foreground(), std::move(place));
}

void World::Impl::stop_timeline() {
  const std::lock_guard lock(foreground_mutex_);
  check_joined();
  write_timeline();
}

void World::Impl::write_timeline() {
  if (!timeline_.on()) return;
  failure_->check();  // ranks that are out of step cannot gather it
  timeline_.stop(foreground());
}

}  // namespace sullae
