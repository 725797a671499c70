// What a World is made of: three channels to the other ranks, each with collectives of its own. A
// process set makes each, and its threads, when it is first used.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/own_process.h"
#include "collective/messages/group.h"
#include "collective/shm/shared_buffers.h"
#include "engine/background_queue.h"
#include "engine/engine.h"
#include "engine/timeline.h"
#include "sullae/adapter.h"
#include "sullae/communicator.h"
#include "sullae/device.h"
#include "sullae/sullae.h"
#include "transport/failure.h"
#include "transport/rendezvous.h"
#include "transport/topology.h"
#include "world/session.h"

namespace sullae {

class World::Impl {
 public:
  /// `name` tells the channels of different worlds apart. Collective.
  Impl(std::shared_ptr<Session> session, Topology topology, std::string name);
  /// Ends `impl`, perhaps in one of its own threads: a callback may have held the last copy.
  static void end(Impl* impl);
  static std::unique_ptr<Impl> join(const WorldOptions& options);
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void leave();
  bool has_left() const { return left_; }
  bool has_failed() const { return failure_->first() != nullptr; }
  const Topology& topology() const { return topology_; }
  std::string backend() const { return backend_; }

  /// Runs a blocking collective in the calling thread. The timeline shows it as `phase`: an
  /// Operation, or a name.
  template <class Phase, class Call>
  void run(Phase phase, std::size_t bytes, const Call& call) {
    check_process();  // a fork's copy of the mutex may be locked for ever
    const std::lock_guard lock(foreground_mutex_);
    check_joined();
    guarded([&] {
      const engine::Span span(timeline_, engine::Lane::blocking, phase, "", bytes);
      set_shape({});
      call(foreground());
    });
  }

  /// Of the blocking collective that is about to run.
  void set_shape(std::string_view shape) {
    if (shape.empty() && !has_shape_) return;
    has_shape_ = !shape.empty();
    foreground_->set_label(shape, 0, 0);
  }

  /// Runs a message in the calling thread, beside whatever others do.
  template <class Call>
  auto run_message(const char* phase, std::size_t bytes, const Call& call) {
    check_joined();
    return guarded([&] {
      const engine::Span span(timeline_, engine::Lane::blocking, phase, "", bytes);
      return call(*messages_);
    });
  }
  /// What `start` gives its argument is what the message's end calls.
  std::shared_ptr<Completion> start_message(
      const std::function<void(messages::Group&, messages::Group::Finished)>& start);

  /// The planned path.
  std::shared_ptr<Completion> submit(std::function<void(Communicator&)> call,
                                     const PlannedOptions& options);
  void run_planned(std::function<void(Communicator&)> call, const PlannedOptions& options);
  /// All that is under way here and on the other ranks ends with `error`.
  void fail(const std::exception_ptr& error);
  /// All that is under way here does, and what would tell the other ranks.
  void abandon(const std::exception_ptr& error) {
    failure_->set(error);
    engine_failure_->set(error);
    cut_off_->set(error);
  }
  /// The negotiated path. Gives an operation without a name one.
  std::shared_ptr<Completion> submit(Signature signature, const AsyncOptions& options,
                                     engine::Submission submission);
  engine::Timeline& timeline() { return timeline_; }
  void start_timeline(engine::Timeline::Place place);
  void stop_timeline();
  std::shared_ptr<Completion> join_others() {
    check_joined();
    return engine().join();
  }
  std::shared_ptr<DeviceCommunicator> device_communicator(int device);
  std::uint64_t next_number() { return next_number_++; }

  /// Null where this rank is not among `ranks`.
  std::unique_ptr<Impl> process_set(std::vector<int> ranks);

  void check_root(int root) const;
  void check_counts(std::span<const std::size_t> counts) const;

 private:
  // Runs `call` unless the world has failed. Ranks that disagree are told so before data moves, and
  // the world goes on; after any other error they are out of step.
  template <class Call>
  auto guarded(const Call& call) -> decltype(call()) {
    failure_->check();
    try {
      return call();
    } catch (const MismatchError&) {
      throw;
    } catch (const InputError&) {
      throw;
    } catch (const PeerError&) {
      // Who is gone may have said why: the engine hears of it.
      failure_->check_within(kReasonLimit);
      fail(std::current_exception());
      throw;
    } catch (...) {  // a user's operation may throw anything
      fail(std::current_exception());
      throw;
    }
  }
  void write_timeline();
  std::function<void()> planned_operation(std::function<void(Communicator&)> call,
                                          const PlannedOptions& options);
  // Throws Error once this rank has left, and InputError in a fork of it.
  void check_joined() const;
  void check_process() const;
  static constexpr std::chrono::milliseconds kReasonLimit{500};
  // Their numbers tell their allocations apart.
  enum class Channel : std::uint8_t { foreground = 1, planned, negotiated };
  std::unique_ptr<Communicator> make_channel(Channel channel);
  Communicator& foreground();
  Communicator& planned();
  engine::Engine& engine();
  BackgroundQueue& queue();
  bool is_set() const { return !name_.empty(); }
  void start_engine();
  void check_same_set(const std::vector<int>& ranks);
  void tell_addresses();
  std::unique_ptr<DeviceCommunicator> make_device_communicator(int device);

  OwnProcess process_;
  std::shared_ptr<Session> session_;
  std::shared_ptr<Failure> cut_off_;  // the session's, which leave() lets go
  Topology topology_;
  std::string name_;
  std::string backend_;
  std::atomic<bool> left_{false};
  std::atomic<bool> messages_over_{false};
  std::shared_ptr<Failure> failure_ = std::make_shared<Failure>();
  std::shared_ptr<messages::Group> messages_;
  engine::Timeline timeline_;  // outlives the threads, which record in it
  int process_sets_ = 0;       // made so far
  std::atomic<std::uint64_t> next_number_{0};
  // The engine's waits do not end with the world: it is what tells the other ranks.
  std::shared_ptr<Failure> engine_failure_ = std::make_shared<Failure>();
  std::shared_ptr<Rendezvous> rendezvous_;  // null where this rank is alone
  std::shared_ptr<Rendezvous> engine_rendezvous_;
  std::shared_ptr<shm::SharedBuffers> buffers_ = std::make_shared<shm::SharedBuffers>();
  std::mutex foreground_mutex_;  // guards the three below
  std::unique_ptr<Communicator> foreground_;
  bool has_shape_ = false;
  bool addresses_told_ = false;            // where this is no set
  std::unique_ptr<Communicator> planned_;  // used by whoever has the queue's turn
  // Operations without a name, by kind.
  std::array<std::atomic<std::uint64_t>, kOperations> unnamed_{};
  std::mutex device_mutex_;  // guards the two below
  bool device_decided_ = false;
  std::shared_ptr<DeviceCommunicator> device_;
  std::mutex start_mutex_;  // guards the start of the two below
  bool starts_no_more_ = false;
  std::shared_ptr<engine::Engine> engine_;
  std::shared_ptr<BackgroundQueue> queue_;
};

}  // namespace sullae
