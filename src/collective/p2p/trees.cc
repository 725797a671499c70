// Binomial trees and the chain: reduce towards a root and broadcast from one.
#include <algorithm>
#include <vector>

#include "collective/p2p/message.h"

namespace sullae::p2p {
namespace {

constexpr std::size_t kTreeSegmentBytes = std::size_t{512} << 10;

// Ranks renumbered so that the root is 0.
struct Rooted {
  int root;
  int size;
  int place_of(int rank) const { return (rank - root + size) % size; }
  int rank_at(int place) const { return (place + root) % size; }
};

}  // namespace

void reduce_tree(Exchange& exchange, const Signature& signature, const Reduction& reduction,
                 int root) {
  exchange.check_neighbours(signature);  // most hear of nobody who sends to them
  const int size = exchange.size();
  const Rooted ranks{root, size};
  const int place = ranks.place_of(exchange.rank());
  const std::size_t bytes = reduction.count * reduction.width();
  Message mine(signature, reduction.in, bytes);
  Message theirs(bytes);
  for (int distance = 1; distance < size; distance *= 2) {
    if (place & distance) {
      mine.send(exchange, ranks.rank_at(place - distance), 0);
      return;
    }
    if (place + distance >= size) continue;
    theirs.receive(exchange, ranks.rank_at(place + distance), 0, signature);
    combine(reduction, {mine.payload(), distance},
            {theirs.payload(), std::min(distance, size - place - distance)}, mine.payload(),
            reduction.count, size);
  }
  copy_bytes(reduction.out, mine.payload(), bytes);
}

void broadcast_tree(Exchange& exchange, const Signature& signature, std::byte* data,
                    std::size_t bytes, int root) {
  exchange.check_neighbours(signature);  // the root hears of nobody
  const int size = exchange.size();
  const Rooted ranks{root, size};
  const int place = ranks.place_of(exchange.rank());
  Message message(signature, data, bytes);
  int distance = 1;
  if (place != 0) {
    while ((place & distance) == 0) distance *= 2;
    message.receive(exchange, ranks.rank_at(place - distance), 0, signature);
    copy_bytes(data, message.payload(), bytes);
  } else {
    while (distance < size) distance *= 2;
  }
  std::vector<Request> sends;
  for (distance /= 2; distance >= 1; distance /= 2) {
    if (place + distance >= size) continue;
    sends.push_back(
        exchange.send(ranks.rank_at(place + distance), 0, message.data(), message.size()));
  }
  exchange.wait(sends);
}

void broadcast_chain(Exchange& exchange, const Signature& signature, std::byte* data,
                     std::size_t bytes, int root) {
  exchange.check_neighbours(signature);
  const int size = exchange.size();
  const Rooted ranks{root, size};
  const int place = ranks.place_of(exchange.rank());
  const bool receives = place > 0;
  const bool sends_on = place + 1 < size;
  std::vector<Request> receiving;
  std::vector<Request> sending;
  for (std::size_t begin = 0; receives && begin < bytes; begin += kTreeSegmentBytes) {
    const std::size_t n = std::min(kTreeSegmentBytes, bytes - begin);
    receiving.push_back(exchange.receive(ranks.rank_at(place - 1), 0, data + begin, n));
  }
  for (std::size_t begin = 0, i = 0; begin < bytes; begin += kTreeSegmentBytes, ++i) {
    if (receives) exchange.wait(receiving[i]);
    const std::size_t n = std::min(kTreeSegmentBytes, bytes - begin);
    if (sends_on) sending.push_back(exchange.send(ranks.rank_at(place + 1), 0, data + begin, n));
  }
  exchange.wait(sending);
}

}  // namespace sullae::p2p
