#include <vector>

#include "base/copy.h"
#include "collective/p2p/p2p.h"

namespace sullae::p2p {

// R. Thakur, R. Rabenseifner, W. Gropp: Optimization of Collective Communication Operations in
// MPICH, 2005, section 4.
void allreduce_halving_doubling(Exchange& exchange, const Signature& signature,
                                const Reduction& reduction) {
  const int size = exchange.size();
  const int rank = exchange.rank();
  const std::size_t width = reduction.width();
  exchange.check_neighbours(signature);
  std::byte* const received = exchange.scratch((reduction.count + 1) / 2 * width);
  if (reduction.in != reduction.out)
    copy_bytes(reduction.out, reduction.in, reduction.count * width);

  // Halving: keep one half of the range, give the other to a peer, and reduce what the peer gives
  // for the kept half.
  std::vector<Range> kept{{0, reduction.count}};
  std::uint64_t step = 0;
  for (int distance = 1; distance < size; distance *= 2, ++step) {
    const int peer = rank ^ distance;
    const Range range = kept.back();
    const std::size_t middle = range.begin + (range.size() + 1) / 2;
    const bool lower = (rank & distance) == 0;
    const Range keep = lower ? Range{range.begin, middle} : Range{middle, range.end};
    const Range give = lower ? Range{middle, range.end} : Range{range.begin, middle};
    exchange.send_and_receive(peer, reduction.out + give.begin * width, give.size() * width, peer,
                              received, keep.size() * width, step);
    std::byte* const values = reduction.out + keep.begin * width;
    combine(reduction, {lower ? values : received, distance}, {lower ? received : values, distance},
            values, keep.size(), size);
    kept.push_back(keep);
  }
  // Doubling: the same way back, exchanging finished halves.
  for (int distance = size / 2; distance >= 1; distance /= 2, ++step) {
    const int peer = rank ^ distance;
    const Range mine = kept.back();
    kept.pop_back();
    const Range whole = kept.back();
    const Range theirs =
        mine.begin == whole.begin ? Range{mine.end, whole.end} : Range{whole.begin, mine.begin};
    exchange.send_and_receive(peer, reduction.out + mine.begin * width, mine.size() * width, peer,
                              reduction.out + theirs.begin * width, theirs.size() * width, step);
  }
}

}  // namespace sullae::p2p
