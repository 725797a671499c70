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
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "sullae/error.h"
#include "sullae/types.h"

namespace sullae {

class Communicator;
class Completion;
class Compression;
class DeviceCommunicator;

/// An asynchronous collective on its way. Copies refer to the same operation. Any thread may call.
class Handle {
 public:
  Handle() = default;
  /// True when wait() would return at once.
  bool done() const;
  /// Waits until the operation has completed on this rank and rethrows what it threw. An operation
  /// ends by itself within SULLAE_TIMEOUT. The calling thread does what the background has not
  /// begun: it runs operations, others' too, and their callbacks, so it must hold no lock that a
  /// callback takes.
  void wait() const;
  /// Only waits, for at most `limit`; false when it has not completed by then.
  bool wait_for(std::chrono::milliseconds limit) const;
  /// Calls `callback` when the operation is done, with its error or null: in the thread that ran
  /// it, which it must not keep, or at once in this one when it is done already. It must not throw.
  void then(std::function<void(std::exception_ptr)> callback) const;
  /// Of a receive that has completed: the rank that sent the message; of World::join_async(): the
  /// last rank to join. Throws Error for anything else.
  int source() const;

 private:
  friend class World;
  explicit Handle(std::shared_ptr<Completion> completion) : completion_(std::move(completion)) {}
  std::shared_ptr<Completion> completion_;
};

/// Where World::receive takes a message from, when any rank may send it.
inline constexpr int kAnySource = -1;

/// How a World finds its ranks. init() fills it from the environment; tests and tools fill it
/// themselves.
struct WorldOptions {
  int rank = 0;
  int size = 1;
  /// Where the rendezvous store is: "host:port" or "unix:name". Not used by a world of one.
  std::string store;
  /// Rank 0 serves the store itself, as long as its world lives; else somebody else does (`sullae
  /// run` does).
  bool serve_store = false;
  /// "auto", "shm", "ucx" or "mpi"; empty takes SULLAE_TRANSPORT.
  std::string transport;
  /// Ranks with the same identity share memory; empty takes SULLAE_HOST_ID, or detects the host.
  std::string host_id;
  /// Limits of the waits; zero takes SULLAE_TIMEOUT and SULLAE_RENDEZVOUS_TIMEOUT.
  std::chrono::milliseconds timeout{0};
  std::chrono::milliseconds rendezvous_timeout{0};
  /// Tells worlds apart that use the same store one after another.
  int generation = 0;
};

/// What an asynchronous operation may be told besides its data.
struct AsyncOptions {
  /// Ranks that use the same name mean the same operation. Unique among the operations in flight.
  /// Without one it is named after how many of its kind came before it, so that operations without
  /// names must be submitted in the same order on every rank.
  std::string name = {};
  /// allreduce of numbers: factors for what goes in and what comes out. Of integers what is before
  /// the point remains.
  double prescale = 1.0;
  double postscale = 1.0;
  /// allreduce of float32, sum or average: how the tensor travels; see sullae/compression.h. One
  /// object a tensor, which may keep state from one step to the next.
  std::shared_ptr<Compression> compression = {};
  /// The shape of what the memory holds, as text; ranks must agree on it. Adapters set it.
  std::string shape = {};
  /// Ranks that have joined submit it as the others do, and it waits for them: they follow with
  /// values of their own.
  bool joined_too = false;
};

/// One tensor of a grouped operation. `in` and `out` may be the same.
struct TensorBuffers {
  const void* in = nullptr;
  void* out = nullptr;
  std::size_t count = 0;
};

/// A group of ranks that compute together. Objects are handles: copies refer to the same world,
/// which has every connection, thread and segment, and which this rank leaves with leave(), with
/// shutdown() where init() joined it, or when the last copy goes. A process may be in several
/// worlds, and ranks may be threads of one process, each with a World of its own. What is made from
/// a world (optimizers, process sets, samplers) keeps a copy: after leave() it throws Error instead
/// of meeting nobody, and is to be made anew from the next world.
///
/// Blocking collectives must be called by every rank, in the same order on every rank. They run in
/// the calling thread and may be called from any one thread at a time (others wait).
///
/// Asynchronous ones have names, and may be submitted by any thread, in any order on any rank: the
/// ranks agree in the background on what all of them have submitted, and run that. Allreduces of
/// small tensors that become ready together are run as one. Blocking and asynchronous calls may be
/// mixed freely. What some ranks have submitted and others have not is reported after
/// SULLAE_STALL_WARNING and fails after SULLAE_STALL_TIMEOUT, with names and ranks.
///
/// Counts are in elements of the given type. `in` and `out` may be the same buffer where their
/// sizes are equal; otherwise they must not overlap. The memory must stay as it is until the
/// operation completes.
///
/// Every collective throws PeerError when a rank died or left, TimeoutError when one did not come
/// in time, and MismatchError when ranks disagree about what to do. After the first two the World
/// is of no further use: leave it, and join another; after the third, too, where several hosts have
/// several ranks each and it was an allreduce, a broadcast or a barrier. Every call but those that
/// ask for ranks throws Error after leave().
class World {
 public:
  /// Joins the world. Collective. Throws TimeoutError that names the rank which did not come,
  /// InputError for options that cannot be.
  static World create(const WorldOptions& options);
  // A copy costs as much as one of a shared pointer. There is no empty World, so a move is a copy.
  World(const World&) = default;
  World& operator=(const World&) = default;
  ~World() = default;
  /// Whether both are handles of one world.
  bool operator==(const World&) const = default;

  /// Completes what was submitted and leaves, for all copies. Calls that other threads are in end
  /// first, and receives that have not ended throw Error. A second call does nothing. Throws Error
  /// in a callback of Handle::then().
  void leave() const;
  /// Whether leave() was called.
  bool has_left() const;

  int rank() const;
  int size() const;
  /// This rank's place among the ranks of its host, and their number.
  int local_rank() const;
  int local_size() const;
  /// The host's place among the hosts, and their number.
  int cross_rank() const;
  int cross_size() const;
  /// Whether all hosts have equally many ranks.
  bool is_homogeneous() const;

  /// What moves the bytes: "shm" within a host, "ucx" between hosts, "shm+ucx" where hosts have
  /// several ranks, "self" for a world of one.
  std::string backend() const;

  // Blocking collectives. Where there is a `shape` it is what the memory holds, as text: ranks must
  // agree on it.

  /// out[i] = the reduction of every rank's in[i]. Every rank receives the same bits. A minimum or
  /// maximum is not a number where any rank's value is none.
  void allreduce(const void* in, void* out, std::size_t count, DataType type,
                 ReduceOp op = ReduceOp::sum, std::string_view shape = {}) const;
  /// As allreduce, but only `root` receives; `out` is not touched elsewhere.
  void reduce(const void* in, void* out, std::size_t count, DataType type, ReduceOp op,
              int root) const;
  /// Reduces `in` (size() × `count` elements) and leaves part r (`count` elements) in rank r's
  /// `out`.
  void reducescatter(const void* in, void* out, std::size_t count, DataType type,
                     ReduceOp op = ReduceOp::sum) const;
  /// The same with a part of counts[r] elements for rank r; `counts` is equal on every rank.
  void reducescatterv(const void* in, void* out, std::span<const std::size_t> counts, DataType type,
                      ReduceOp op = ReduceOp::sum, std::string_view shape = {}) const;
  /// `out` becomes every rank's `in` (`count` elements each), in the order of ranks.
  void allgather(const void* in, void* out, std::size_t count, DataType type) const;
  /// The same with counts[r] elements from rank r; `counts` is equal on every rank.
  void allgatherv(const void* in, void* out, std::span<const std::size_t> counts, DataType type,
                  std::string_view shape = {}) const;
  /// `data` becomes root's.
  void broadcast(void* data, std::size_t count, DataType type, int root,
                 std::string_view shape = {}) const;
  /// Sends the r-th `count` elements of `in` to rank r; `out` is what arrives, in the order of
  /// ranks.
  void alltoall(const void* in, void* out, std::size_t count, DataType type) const;
  /// The same with send_counts[r] elements for rank r and receive_counts[r] from rank r.
  void alltoallv(const void* in, std::span<const std::size_t> send_counts, void* out,
                 std::span<const std::size_t> receive_counts, DataType type,
                 std::string_view shape = {}) const;
  /// Returns when every rank has called it.
  void barrier() const;

  /// Messages between two ranks, which nobody else takes part in; any number of threads may call at
  /// the same time. A receive gets the first message with its tag (at least 0) that the sender, or
  /// any, has sent and no earlier receive got; messages of one rank with one tag arrive in order.
  /// It must expect as many elements, of the same type, as were sent; else it throws MismatchError,
  /// as does the send where it has not ended by then.
  ///
  /// send() returns when the memory may be used again: a message of up to 8 KiB may wait at its
  /// receiver for its receive, a larger one waits in the sender's memory, so that two ranks which
  /// first send large messages to each other wait for ever, which here means SULLAE_TIMEOUT.
  /// receive() returns the rank that the message came from.
  ///
  /// Both throw PeerError when the other rank died or left, and TimeoutError when it did not come
  /// in time.
  void send(const void* data, std::size_t count, DataType type, int to, int tag = 0) const;
  int receive(void* data, std::size_t count, DataType type, int from, int tag = 0) const;
  /// The same in the background: Handle::source() is what receive() returns.
  Handle send_async(const void* data, std::size_t count, DataType type, int to, int tag = 0) const;
  Handle receive_async(void* data, std::size_t count, DataType type, int from, int tag = 0) const;

  /// The collectives in the background. Spans are copied; buffers must live until the handle is
  /// done. What throws in a blocking collective is thrown by the handle, and InputError here.
  Handle allreduce_async(const void* in, void* out, std::size_t count, DataType type,
                         ReduceOp op = ReduceOp::sum, const AsyncOptions& options = {}) const;
  /// Several allreduces under one name that complete together.
  Handle grouped_allreduce_async(std::span<const TensorBuffers> tensors, DataType type,
                                 ReduceOp op = ReduceOp::sum,
                                 const AsyncOptions& options = {}) const;
  Handle reduce_async(const void* in, void* out, std::size_t count, DataType type, ReduceOp op,
                      int root, const AsyncOptions& options = {}) const;
  Handle reducescatterv_async(const void* in, void* out, std::span<const std::size_t> counts,
                              DataType type, ReduceOp op = ReduceOp::sum,
                              const AsyncOptions& options = {}) const;
  Handle allgatherv_async(const void* in, void* out, std::span<const std::size_t> counts,
                          DataType type, const AsyncOptions& options = {}) const;
  Handle broadcast_async(void* data, std::size_t count, DataType type, int root,
                         const AsyncOptions& options = {}) const;
  Handle alltoallv_async(const void* in, std::span<const std::size_t> send_counts, void* out,
                         std::span<const std::size_t> receive_counts, DataType type,
                         const AsyncOptions& options = {}) const;
  Handle barrier_async(const AsyncOptions& options = {}) const;
  /// This rank has run out of data: until every rank has said so, it takes part with zeros in the
  /// asynchronous sums and gathers of the others, whose other operations fail. Returns the last
  /// rank to join. Operations without names are counted anew from there on.
  int join() const;
  /// Begins that; the handle's source is the last rank to join. Meanwhile this rank submits nothing
  /// but what is AsyncOptions::joined_too. Each call is one end that all ranks come to: the n-th of
  /// one rank waits for the n-th of the others.
  Handle join_async() const;

  /// Records what every rank does from here to stop_timeline(), or to the end of the world, in one
  /// file that Perfetto and chrome://tracing open; `sullae timeline FILE` sums it up. Both are
  /// collective; rank 0 writes. SULLAE_TIMELINE=FILE (`sullae run --timeline`) records from the
  /// start. Throws InputError where it is on already, Error where the file cannot be written.
  void start_timeline(const std::filesystem::path& file) const;
  void stop_timeline() const;
  /// Adds a span of the program's own, from `start` until now. Any thread may call.
  void mark(const char* phase, std::string_view name,
            std::chrono::steady_clock::time_point start) const;

  /// A world of some of the ranks, numbered anew in ascending order, with collectives, order and
  /// threads of its own; sets may overlap and be used at the same time. Collective over this world:
  /// every rank gives the same ranks. Empty on ranks that are not in it. It may outlive this world.
  /// Threads and memory are made when they are first used: a set costs next to nothing before.
  /// Throws InputError for ranks that do not exist or come twice, MismatchError when ranks give
  /// different ones.
  std::optional<World> process_set(std::vector<int> ranks) const;

  /// Zeroed memory, 64-byte aligned, in which buffers of allreduce are fastest: a segment that the
  /// host's ranks share, where each rank reduces its share straight from its peers' memory.
  /// Collective, with the same `bytes` everywhere. It lives as long as somebody holds it, even
  /// after the World; it must not be let go while an operation uses it. Throws InputError for more
  /// than 64 TiB, which no machine's addresses hold, Error where there is not as much memory.
  std::shared_ptr<std::byte> allocate_shared(std::size_t bytes) const;

 private:
  friend class AdapterView;
  class Impl;
  explicit World(std::unique_ptr<Impl> impl);
  static Handle handle_of(std::shared_ptr<Completion> completion);
  std::shared_ptr<Impl> impl_;
};

/// Joins the world that the environment describes, in this order: SULLAE_RANK, SULLAE_SIZE and
/// SULLAE_STORE (set by `sullae run`); torchrun's RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT;
/// Open MPI's; PMIx's and PMI's; Slurm's; TensorFlow's TF_CONFIG. With none of them it is a world
/// of one. Call it once, before the first collective, from the main thread. A second call returns
/// the same world.
World init();
/// Leaves the world that init() joined, so that init() may be called again. What was made from the
/// old world is to be made anew. Done at exit by itself.
void shutdown();
bool is_initialized();
/// The world that init() joined. Throws Error before init().
World world();

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
Handle allreduce_async(std::span<T> data, ReduceOp op = ReduceOp::sum,
                       const AsyncOptions& options = {}) {
  return world().allreduce_async(data.data(), data.data(), data.size(), data_type_of<T>, op,
                                 options);
}
template <class T>
void broadcast(std::span<T> data, int root) {
  world().broadcast(data.data(), data.size(), data_type_of<T>, root);
}
inline void barrier() { world().barrier(); }
template <class T>
void send(std::span<T> data, int to, int tag = 0) {
  world().send(data.data(), data.size(), data_type_of<std::remove_const_t<T>>, to, tag);
}
template <class T>
int receive(std::span<T> data, int from, int tag = 0) {
  return world().receive(data.data(), data.size(), data_type_of<T>, from, tag);
}

}  // namespace sullae
