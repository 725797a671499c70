// What the message-passing algorithms share: the reduction to compute, and tagged exchanges within
// one collective.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "collective/counts.h"
#include "sullae/types.h"
#include "transport/labels.h"
#include "transport/signature.h"
#include "transport/transport.h"

namespace sullae::p2p {

/// Memory for what arrives, kept from one collective to the next: fresh memory would be zeroed and
/// mapped page by page before a byte could arrive.
class Scratch {
 public:
  std::byte* at_least(std::size_t bytes) {
    if (bytes > size_) {
      memory_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
      size_ = bytes;
    }
    return memory_.get();
  }

 private:
  std::unique_ptr<std::byte[]> memory_;
  std::size_t size_ = 0;
};

/// Messages of one collective. A step's tag must be the same on both sides. Whatever send(),
/// receive() or wait() throws, no message of the collective is under way any more when they do, so
/// its memory may go.
class Exchange {
 public:
  Exchange(Transport& transport, std::uint64_t sequence, Scratch& scratch, const Labels& labels)
      : transport_(transport), sequence_(sequence), scratch_(scratch), labels_(labels) {}

  int rank() const { return transport_.rank(); }
  int size() const { return transport_.size(); }

  Request send(int peer, std::uint64_t step, const void* data, std::size_t bytes) {
    return guarded([&] { return transport_.send(peer, make_tag(sequence_, step), data, bytes); });
  }
  Request receive(int peer, std::uint64_t step, void* data, std::size_t bytes) {
    return guarded(
        [&] { return transport_.receive(peer, make_tag(sequence_, step), data, bytes); });
  }
  void wait(Request& request) { wait({&request, 1}); }
  void wait(std::span<Request> requests) {
    guarded([&] { transport_.wait(requests); });
  }
  /// Memory of the communicator, to be used by one algorithm at a time.
  std::byte* scratch(std::size_t bytes) { return scratch_.at_least(bytes); }
  void send_and_receive(int to, const void* out, std::size_t out_bytes, int from, void* in,
                        std::size_t in_bytes, std::uint64_t step);

  /// Compares `signature` with the left neighbour's, so that different collectives are told apart
  /// before data moves. Throws MismatchError.
  void check_neighbours(const Signature& signature);
  /// The same in two halves, for what has signatures in messages of its own, so that a neighbour
  /// which calls something else hears of it. The second comes when all ranks have begun, and costs
  /// no wait then.
  void begin_check(const Signature& signature);
  void end_check();
  /// Throws MismatchError unless `theirs`, which came from `peer`, is `mine`.
  void check_same(const Signature& mine, int peer, const Signature& theirs) const;

 private:
  template <class Call>
  auto guarded(const Call& call) -> decltype(call()) {
    try {
      return call();
    } catch (...) {  // a user's operation may have ended the world with anything
      transport_.abandon();
      throw;
    }
  }

  Transport& transport_;
  std::uint64_t sequence_;
  Scratch& scratch_;
  const Labels& labels_;
  // Of begin_check(): they stay until no message touches them, whatever is thrown.
  Signature mine_;
  Signature left_;
  std::array<Request, 2> check_;
};

/// Steps at and above this number are for signatures; algorithms number theirs from 0 and from
/// 0x4000, by ranks, and a few from 0x8000.
inline constexpr std::uint64_t kSignatureStep = 0xfff0;
inline constexpr std::uint64_t kAlarmStep = 0xfffe;

struct Reduction {
  const std::byte* in = nullptr;
  std::byte* out = nullptr;
  std::size_t count = 0;
  DataType type = DataType::float32;
  ReduceOp op = ReduceOp::sum;

  std::size_t width() const { return element_size(type); }
};

/// What the values of `ranks` ranks have become so far: for an average their sum, which is divided
/// when all ranks' are in it. That of float16, whose largest value is 65504, is divided on the way
/// by the power of two next to `ranks`, which rounds nothing that is not close to zero.
struct Partial {
  const void* values = nullptr;
  int ranks = 1;
};
/// out = a op b for `count` elements, the result of the whole group where a and b are all of it.
void combine(const Reduction& reduction, Partial a, Partial b, void* out, std::size_t count,
             int group_size);

/// Up to here the number of messages decides, above it the number of bytes.
inline constexpr std::size_t kLatencyBytes = std::size_t{16} << 10;

// Allreduce algorithms. Each leaves the same bits on every rank.

/// log2 P exchanges of everything: the fewest messages, for small buffers. Ranks beyond the largest
/// power of two fold their values into a partner first. The signature travels with the values, and,
/// where there are more than two ranks, beside them to a neighbour.
void allreduce_recursive_doubling(Exchange& exchange, const Signature& signature,
                                  const Reduction& reduction);
/// Rabenseifner's: recursive halving, then recursive doubling. 2 log2 P messages and 2 (P-1)/P of
/// the bytes, for buffers of middle size. P must be a power of two.
void allreduce_halving_doubling(Exchange& exchange, const Signature& signature,
                                const Reduction& reduction);
/// 2 (P-1) steps around a ring, cut into segments so that reducing overlaps with receiving: 2
/// (P-1)/P of the bytes, each link busy all the time, for large buffers.
void allreduce_ring(Exchange& exchange, const Signature& signature, const Reduction& reduction);

/// The first half of the ring: rank r gets part r of the reduction, counts[r] elements, in
/// `reduction.out`.
void reducescatter_ring(Exchange& exchange, const Signature& signature, const Reduction& reduction,
                        std::span<const std::size_t> counts);

/// A binomial tree towards `root`, for small buffers.
void reduce_tree(Exchange& exchange, const Signature& signature, const Reduction& reduction,
                 int root);

/// A binomial tree away from `root`, for small buffers.
void broadcast_tree(Exchange& exchange, const Signature& signature, std::byte* data,
                    std::size_t bytes, int root);
/// A chain from `root` through all ranks, in segments: every link carries each byte once, for large
/// buffers.
void broadcast_chain(Exchange& exchange, const Signature& signature, std::byte* data,
                     std::size_t bytes, int root);

/// Everybody sends its part to everybody at once, for small parts. `offsets` are in bytes, one more
/// than ranks; this rank's own part is in place.
void allgather_direct(Exchange& exchange, const Signature& signature, std::byte* out,
                      std::span<const std::size_t> offsets);
/// Parts travel around a ring, for large parts.
void allgather_ring(Exchange& exchange, const Signature& signature, std::byte* out,
                    std::span<const std::size_t> offsets);

}  // namespace sullae::p2p
