// What every rank did when, for Perfetto and chrome://tracing.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <string>
#include <vector>

#include "sullae/communicator.h"
#include "transport/signature.h"

namespace sullae::engine {

/// The rows of a rank in the picture.
enum class Lane { training, blocking, planned, negotiated };

/// Any thread may call. Costs an atomic load where it is off.
class Timeline {
 public:
  using Clock = std::chrono::steady_clock;

  struct Event {
    Lane lane = Lane::training;
    std::string phase;  ///< "ALLREDUCE", "QUEUE", …
    std::string name;   ///< of the tensor, or what else it belongs to
    Clock::time_point start;
    Clock::time_point end;
    std::size_t bytes = 0;
    int rank = 0;   ///< record() puts it in, and the next
    int world = 0;  ///< the generation
  };

  /// Where the events go: a file of its own, or, in a later world of a job, that of the worlds
  /// before.
  struct Place {
    std::filesystem::path file;
    /// Of the job, for a world whose file goes on where that job has begun it; else empty.
    std::string goes_on_of;
    int world = 0;
    /// Of this rank in the world, where the communicator is of a part of it.
    int rank = 0;
  };

  bool on() const { return on_.load(std::memory_order_relaxed); }
  void record(Event event);

  /// Records no more, and keeps what it has for another one: of a world that has failed, and cannot
  /// write.
  void suspend();
  /// Takes over what the suspended timeline of the world before has. Does nothing where this one is
  /// off.
  void take_over(Timeline& before);

  /// Collective. The ranks' clocks are lined up by a barrier, so that times of different hosts
  /// agree to about a round trip; those of a job's worlds by rank 0's clock of the day.
  void start(Communicator& communicator, Place place);
  /// Collective: rank 0 gathers everybody's events and writes the file. Does nothing where the
  /// timeline is off. Where another rank is gone, rank 0 writes its own events and warns.
  void stop(Communicator& communicator);

 private:
  std::string to_json() const;

  std::atomic<bool> on_{false};
  mutable std::mutex mutex_;  // guards all below
  // What viewers open, and ranks have in memory together when it is written: some thousand steps.
  static constexpr std::size_t kMostEvents = 250'000;

  std::uint64_t left_out_ = 0;
  std::vector<Event> events_;
  Place place_;
  Clock::time_point origin_;
};

/// "ALLREDUCE", …
std::string phase_of(Operation operation);

/// Records from its making to its end.
class Span {
 public:
  Span(Timeline& timeline, Lane lane, const char* phase, std::string_view name, std::size_t bytes)
      : timeline_(timeline.on() ? &timeline : nullptr) {
    if (timeline_ != nullptr)
      event_ = {lane, phase, std::string(name), Timeline::Clock::now(), {}, bytes};
  }
  Span(Timeline& timeline, Lane lane, Operation operation, std::string_view name, std::size_t bytes)
      : Span(timeline, lane, "", name, bytes) {
    if (timeline_ != nullptr) event_.phase = phase_of(operation);
  }
  ~Span() {
    if (timeline_ == nullptr) return;
    event_.end = Timeline::Clock::now();
    timeline_->record(std::move(event_));
  }
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;

 private:
  Timeline* timeline_;
  Timeline::Event event_;
};

}  // namespace sullae::engine
