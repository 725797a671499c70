// Sullae: from one process to many. Ranks, and collectives on plain memory.
//
//   int main() {
//     sullae::init();
//     std::vector<float> values = …;
//     sullae::allreduce(std::span(values), sullae::ReduceOp::average);
//   }
//
// Start it with `sullae run -np 4 ./program`, with torchrun, mpirun or srun, or alone.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "sullae/error.h"
#include "sullae/types.h"

namespace sullae {

class Communicator;

/// An asynchronous collective on its way. Copies refer to the same operation. Any thread may call.
class Handle {
 public:
  Handle() = default;
  /// True when wait() would return at once.
  bool done() const;
  /// Waits until the operation has completed on this rank and rethrows what it threw. An operation
  /// ends by itself within SULLAE_TIMEOUT.
  void wait() const;

 private:
  friend class World;
  struct State;
  explicit Handle(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

/// How a World finds its ranks. init() fills it from the environment; tests and tools fill it
/// themselves.
struct WorldOptions {
  int rank = 0;
  int size = 1;
  /// Where the rendezvous store is: "host:port" or "unix:name". Not used by a world of one.
  std::string store;
  /// Rank 0 serves the store itself; else somebody else does (`sullae run` does).
  bool serve_store = false;
  /// "auto", "shm" or "ucx"; empty takes SULLAE_TRANSPORT.
  std::string transport;
  /// Ranks with the same identity share memory; empty takes SULLAE_HOST_ID, or detects the host.
  std::string host_id;
  /// Limits of the waits; zero takes SULLAE_TIMEOUT and SULLAE_RENDEZVOUS_TIMEOUT.
  std::chrono::milliseconds timeout{0};
  std::chrono::milliseconds rendezvous_timeout{0};
};

/// A group of ranks that compute together. One object owns every connection, thread and segment; a
/// process may have several, and ranks may be threads of one process, each with a World of its own.
///
/// Collectives must be called by every rank, in the same order on every rank. Blocking ones run in
/// the calling thread and may be called from any one thread at a time (others wait). Asynchronous
/// ones run in the World's background thread, in the order of submission, and form an order of
/// their own: blocking and asynchronous calls may be mixed freely.
///
/// Counts are in elements of the given type. `in` and `out` may be the same buffer where their
/// sizes are equal; otherwise they must not overlap. The memory must stay as it is until the
/// operation completes.
///
/// Every collective throws PeerError when a rank died or left, TimeoutError when one did not come
/// in time, and MismatchError when ranks disagree about what to do. After the first two the World
/// is of no further use.
class World {
 public:
  /// Joins the world. Collective. Throws TimeoutError that names the rank which did not come,
  /// InputError for options that cannot be.
  static std::unique_ptr<World> create(const WorldOptions& options);
  /// Completes what was submitted and leaves.
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  int rank() const;
  int size() const;
  /// This rank's place among the ranks of its host, and their number.
  int local_rank() const;
  int local_size() const;
  /// The host's place among the hosts, and their number.
  int cross_rank() const;
  int cross_size() const;

  /// out[i] = the reduction of every rank's in[i]. Every rank receives the same bits.
  void allreduce(const void* in, void* out, std::size_t count, DataType type,
                 ReduceOp op = ReduceOp::sum);
  /// As allreduce, but only `root` receives; `out` is not touched elsewhere.
  void reduce(const void* in, void* out, std::size_t count, DataType type, ReduceOp op, int root);
  /// Reduces `in` (size() × `count` elements) and leaves part r (`count` elements) in rank r's
  /// `out`.
  void reducescatter(const void* in, void* out, std::size_t count, DataType type,
                     ReduceOp op = ReduceOp::sum);
  /// The same with a part of counts[r] elements for rank r; `counts` is equal on every rank.
  void reducescatterv(const void* in, void* out, std::span<const std::size_t> counts, DataType type,
                      ReduceOp op = ReduceOp::sum);
  /// `out` becomes every rank's `in` (`count` elements each), in the order of ranks.
  void allgather(const void* in, void* out, std::size_t count, DataType type);
  /// The same with counts[r] elements from rank r; `counts` is equal on every rank.
  void allgatherv(const void* in, void* out, std::span<const std::size_t> counts, DataType type);
  /// `data` becomes root's.
  void broadcast(void* data, std::size_t count, DataType type, int root);
  /// Sends the r-th `count` elements of `in` to rank r; `out` is what arrives, in the order of
  /// ranks.
  void alltoall(const void* in, void* out, std::size_t count, DataType type);
  /// The same with send_counts[r] elements for rank r and receive_counts[r] from rank r.
  void alltoallv(const void* in, std::span<const std::size_t> send_counts, void* out,
                 std::span<const std::size_t> receive_counts, DataType type);
  /// Returns when every rank has called it.
  void barrier();

  /// The same, in the background. Spans are copied; buffers must live until the handle is done.
  Handle allreduce_async(const void* in, void* out, std::size_t count, DataType type,
                         ReduceOp op = ReduceOp::sum);
  Handle reduce_async(const void* in, void* out, std::size_t count, DataType type, ReduceOp op,
                      int root);
  Handle reducescatterv_async(const void* in, void* out, std::span<const std::size_t> counts,
                              DataType type, ReduceOp op = ReduceOp::sum);
  Handle allgatherv_async(const void* in, void* out, std::span<const std::size_t> counts,
                          DataType type);
  Handle broadcast_async(void* data, std::size_t count, DataType type, int root);
  Handle alltoallv_async(const void* in, std::span<const std::size_t> send_counts, void* out,
                         std::span<const std::size_t> receive_counts, DataType type);
  Handle barrier_async();
  /// A sequence of collectives of an adapter's own, run in the background as one operation; see
  /// collective/communicator.h.
  Handle submit(std::function<void(Communicator&)> operation);

  /// Zeroed memory, 64-byte aligned, in which buffers of allreduce are fastest: a segment that the
  /// host's ranks share, where each rank reduces its share straight from its peers' memory.
  /// Collective, with the same `bytes` everywhere. It lives as long as somebody holds it, even
  /// after the World; it must not be let go while an operation uses it.
  std::shared_ptr<std::byte> allocate_shared(std::size_t bytes);

 private:
  class Impl;
  explicit World(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// Joins the world that the environment describes, in this order: SULLAE_RANK, SULLAE_SIZE and
/// SULLAE_STORE (set by `sullae run`); torchrun's RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT;
/// Open MPI's; PMIx's and PMI's; Slurm's; TensorFlow's TF_CONFIG. With none of them it is a world
/// of one. Call it once, before the first collective, from the main thread. A second call returns
/// the same world.
World& init();
/// Leaves the world that init() joined, so that init() may be called again. Done at exit by itself.
void shutdown();
bool is_initialized();
/// The world that init() joined. Throws Error before init().
World& world();

inline int rank() { return world().rank(); }
inline int size() { return world().size(); }
inline int local_rank() { return world().local_rank(); }
inline int local_size() { return world().local_size(); }
inline int cross_rank() { return world().cross_rank(); }
inline int cross_size() { return world().cross_size(); }

/// In-place collectives of the default world on typed memory. For everything else use world().
template <class T>
void allreduce(std::span<T> data, ReduceOp op = ReduceOp::sum) {
  world().allreduce(data.data(), data.data(), data.size(), data_type_of<T>, op);
}
template <class T>
Handle allreduce_async(std::span<T> data, ReduceOp op = ReduceOp::sum) {
  return world().allreduce_async(data.data(), data.data(), data.size(), data_type_of<T>, op);
}
template <class T>
void broadcast(std::span<T> data, int root) {
  world().broadcast(data.data(), data.size(), data_type_of<T>, root);
}
inline void barrier() { world().barrier(); }

}  // namespace sullae
