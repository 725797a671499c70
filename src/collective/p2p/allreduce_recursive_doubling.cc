#include <bit>
#include <vector>

#include "base/copy.h"
#include "collective/p2p/p2p.h"

namespace sullae::p2p {
namespace {

constexpr std::size_t kHeader = sizeof(Signature);

// A message: the signature, then the values.
struct Message {
  std::vector<std::byte> bytes;
  explicit Message(std::size_t payload) : bytes(kHeader + payload) {}
  std::byte* payload() { return bytes.data() + kHeader; }
  void set_signature(const Signature& signature) { copy_bytes(bytes.data(), &signature, kHeader); }
  Signature signature() const {
    Signature value;
    copy_bytes(&value, bytes.data(), kHeader);
    return value;
  }
};

}  // namespace

// With P = 2^k + r, ranks 0 … 2r-1 pair up: the odd one gives its values to the even one, which
// takes part for both and hands the result back.
void allreduce_recursive_doubling(Exchange& exchange, const Signature& signature,
                                  const Reduction& reduction) {
  const int size = exchange.size();
  const int rank = exchange.rank();
  const int core = static_cast<int>(std::bit_floor(static_cast<unsigned>(size)));
  const int extra = size - core;
  const std::size_t bytes = reduction.count * reduction.width();
  Message mine(bytes);
  Message theirs(bytes);
  mine.set_signature(signature);
  copy_bytes(mine.payload(), reduction.in, bytes);

  const auto receive_from = [&](int peer, std::uint64_t step) {
    Request request = exchange.receive(peer, step, theirs.bytes.data(), theirs.bytes.size());
    exchange.wait(request);
    exchange.check_same(signature, peer, theirs.signature());
  };
  const auto send_to = [&](int peer, std::uint64_t step) {
    Request request = exchange.send(peer, step, mine.bytes.data(), mine.bytes.size());
    exchange.wait(request);
  };
  constexpr std::uint64_t kFoldStep = 1000;
  constexpr std::uint64_t kUnfoldStep = 1001;

  const bool folded = rank < 2 * extra && rank % 2 == 1;
  if (folded) {
    send_to(rank - 1, kFoldStep);
    receive_from(rank - 1, kUnfoldStep);
    copy_bytes(reduction.out, theirs.payload(), bytes);
    return;
  }
  if (rank < 2 * extra) {
    receive_from(rank + 1, kFoldStep);
    combine(reduction, mine.payload(), theirs.payload(), mine.payload(), reduction.count,
            Stage::partial, size);
  }
  const int place = rank < 2 * extra ? rank / 2 : rank - extra;
  const auto rank_at = [&](int position) {
    return position < extra ? position * 2 : position + extra;
  };
  std::uint64_t step = 0;
  for (int distance = 1; distance < core; distance *= 2, ++step) {
    const int peer = rank_at(place ^ distance);
    exchange.send_and_receive(peer, mine.bytes.data(), mine.bytes.size(), peer, theirs.bytes.data(),
                              theirs.bytes.size(), step);
    exchange.check_same(signature, peer, theirs.signature());
    const Stage stage = distance * 2 == core ? Stage::last : Stage::partial;
    // The lower half's values come first on both sides, so that both compute the same bits.
    const bool lower = (place & distance) == 0;
    combine(reduction, lower ? mine.payload() : theirs.payload(),
            lower ? theirs.payload() : mine.payload(), mine.payload(), reduction.count, stage,
            size);
  }
  if (rank < 2 * extra) send_to(rank + 1, kUnfoldStep);
  copy_bytes(reduction.out, mine.payload(), bytes);
}

}  // namespace sullae::p2p
