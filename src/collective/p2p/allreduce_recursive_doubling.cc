#include <algorithm>
#include <bit>

#include "collective/p2p/message.h"

namespace sullae::p2p {

// With P = 2^k + r, ranks 0 … 2r-1 pair up: the odd one gives its values to the even one, which
// takes part for both and hands the result back.
void allreduce_recursive_doubling(Exchange& exchange, const Signature& signature,
                                  const Reduction& reduction) {
  const int size = exchange.size();
  const int rank = exchange.rank();
  const int core = static_cast<int>(std::bit_floor(static_cast<unsigned>(size)));
  const int extra = size - core;
  const std::size_t bytes = reduction.count * reduction.width();
  // Two ranks are each other's neighbours, and their one exchange is the check.
  const bool is_pair = size == 2;
  if (!is_pair) exchange.begin_check(signature);
  Message mine(signature, reduction.in, bytes);
  Message theirs(bytes);
  constexpr std::uint64_t kFoldStep = 0x8001;
  constexpr std::uint64_t kUnfoldStep = 0x8002;

  const bool folded = rank < 2 * extra && rank % 2 == 1;
  if (folded) {
    mine.send(exchange, rank - 1, kFoldStep);
    theirs.receive(exchange, rank - 1, kUnfoldStep, signature);
    copy_bytes(reduction.out, theirs.payload(), bytes);
    return exchange.end_check();
  }
  if (rank < 2 * extra) {
    theirs.receive(exchange, rank + 1, kFoldStep, signature);
    combine(reduction, {mine.payload(), 1}, {theirs.payload(), 1}, mine.payload(), reduction.count,
            size);
  }
  const int place = rank < 2 * extra ? rank / 2 : rank - extra;
  const auto rank_at = [&](int position) {
    return position < extra ? position * 2 : position + extra;
  };
  // Of `places` neighbours from `first` on, whose values are together.
  const auto ranks_from = [&](int first, int places) {
    return places + std::clamp(extra - first, 0, places);
  };
  std::uint64_t step = is_pair ? kSignatureStep : 0;
  for (int distance = 1; distance < core; distance *= 2, ++step) {
    const int peer = rank_at(place ^ distance);
    exchange.send_and_receive(peer, mine.data(), mine.size(), peer, theirs.data(), theirs.size(),
                              step);
    exchange.check_same(signature, peer, theirs.signature());
    // The lower half's values come first on both sides, so that both compute the same bits.
    const bool lower = (place & distance) == 0;
    const int first = place & ~(2 * distance - 1);
    combine(reduction, {lower ? mine.payload() : theirs.payload(), ranks_from(first, distance)},
            {lower ? theirs.payload() : mine.payload(), ranks_from(first + distance, distance)},
            mine.payload(), reduction.count, size);
  }
  if (rank < 2 * extra) mine.send(exchange, rank + 1, kUnfoldStep);
  copy_bytes(reduction.out, mine.payload(), bytes);
  if (!is_pair) exchange.end_check();
}

}  // namespace sullae::p2p
