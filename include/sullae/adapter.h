// What adapters of tensor libraries need of a World, beside what its users do. sullae/torch.h is
// made with it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "sullae/communicator.h"
#include "sullae/device.h"
#include "sullae/sullae.h"

namespace sullae {

/// What a planned operation is, for the timeline and for telling ranks apart whose plans differ:
/// where the name, `plan` or `turn` differs between ranks, all get a MismatchError that shows both.
struct PlannedOptions {
  std::string name = {};
  std::size_t bytes = 0;
  /// A hash of the whole plan, the same on every rank.
  std::uint64_t plan = 0;
  /// Tells repetitions of one operation apart, modulo 256.
  unsigned turn = 0;
};

/// What a composed operation is, for the other ranks and in messages.
struct ComposedOptions {
  /// See AsyncOptions::name.
  std::string name = {};
  /// What it does, for messages: ranks whose words differ get a MismatchError that shows both,
  /// before it runs.
  std::string what = {};
};

/// An adapter's view of a World; a copy of the handle, as cheap as that. Any thread may call. Every
/// call but next_number() throws Error after leave().
class AdapterView {
 public:
  explicit AdapterView(const World& world) : world_(world) {}

  /// The planned path, for what submits the same operations in the same order on every rank: a
  /// sequence of collectives, run in the background as one operation and without negotiation, in
  /// the order of submission; see sullae/communicator.h.
  Handle submit(std::function<void(Communicator&)> operation,
                const PlannedOptions& options = {}) const;
  /// The same, and waits for it: in the calling thread, where no other is under way. Throws what
  /// `operation` throws. In an operation, or in a callback of one, it would wait for itself.
  void run(std::function<void(Communicator&)> operation, const PlannedOptions& options = {}) const;
  /// The negotiated path, for what World's collectives do not offer, such as gathers whose sizes
  /// only the ranks know: once every rank has submitted `name`, `operation` runs, in the engine's
  /// thread or in one that waits, at the same place in the order of all that is negotiated. The
  /// ranks must call the same collectives in it. A MismatchError that it throws ends this operation
  /// alone and must be thrown by every rank; any other error is the world's. Ranks that have joined
  /// cannot take part, and it fails. Throws InputError for empty `what`.
  Handle negotiate(std::function<void(Communicator&)> operation,
                   const ComposedOptions& options) const;
  /// For tensors on GPUs; see sullae/device.h. The first call is collective: every rank names the
  /// GPU that it uses. Null where tensors must go through host memory: without NCCL in this build,
  /// where two ranks share a GPU, or with SULLAE_DEVICE_TRANSPORT=host.
  std::shared_ptr<DeviceCommunicator> device_communicator(int device) const;
  /// Whether the world has failed: its ranks are out of step, and calls throw why.
  bool has_failed() const;
  /// Ends the world with `reason`: what is under way, here and on the other ranks, throws it, and
  /// so does what comes.
  void fail(const std::string& reason) const;
  /// The same, on this rank alone: for who tells the other ranks in another way, and has reason to
  /// think that this world's connections do not reach them.
  void abandon(const std::string& reason) const;
  /// World::start_timeline() for a job's worlds, one after the other, of which this is number
  /// `generation`: from the second on the file goes on where `job` has begun it. Collective.
  void start_timeline(const std::filesystem::path& file, const std::string& job,
                      int generation) const;
  /// For what makes one world after the other: the timeline of a world that has failed ends, and
  /// what it holds is written with that of the next world of this process, which takes it with
  /// go_on_from().
  void suspend_timeline() const;
  void go_on_from(const World& before) const;
  /// 0, 1, 2, …: the same on every rank for objects that are made in the same order.
  std::uint64_t next_number() const;

 private:
  World world_;
};

}  // namespace sullae
