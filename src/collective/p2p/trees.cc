// Binomial trees and the chain: reduce towards a root and broadcast from one.
#include <algorithm>
#include <vector>

#include "base/copy.h"
#include "collective/p2p/p2p.h"

namespace sullae::p2p {
namespace {

constexpr std::size_t kSegmentBytes = std::size_t{512} << 10;
constexpr std::size_t kHeader = sizeof(Signature);

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
  const int size = exchange.size();
  const Rooted ranks{root, size};
  const int place = ranks.place_of(exchange.rank());
  const std::size_t bytes = reduction.count * reduction.width();
  std::vector<std::byte> mine(kHeader + bytes);
  std::vector<std::byte> theirs(kHeader + bytes);
  copy_bytes(mine.data(), &signature, kHeader);
  copy_bytes(mine.data() + kHeader, reduction.in, bytes);
  for (int distance = 1; distance < size; distance *= 2) {
    if (place & distance) {
      Request request = exchange.send(ranks.rank_at(place - distance), 0, mine.data(), mine.size());
      exchange.wait(request);
      return;
    }
    if (place + distance >= size) continue;
    const int child = ranks.rank_at(place + distance);
    Request request = exchange.receive(child, 0, theirs.data(), theirs.size());
    exchange.wait(request);
    Signature their_signature;
    copy_bytes(&their_signature, theirs.data(), kHeader);
    exchange.check_same(signature, child, their_signature);
    const Stage stage = distance * 2 >= size ? Stage::last : Stage::partial;
    combine(reduction, mine.data() + kHeader, theirs.data() + kHeader, mine.data() + kHeader,
            reduction.count, stage, size);
  }
  copy_bytes(reduction.out, mine.data() + kHeader, bytes);
}

void broadcast_tree(Exchange& exchange, const Signature& signature, std::byte* data,
                    std::size_t bytes, int root) {
  const int size = exchange.size();
  const Rooted ranks{root, size};
  const int place = ranks.place_of(exchange.rank());
  std::vector<std::byte> message(kHeader + bytes);
  int distance = 1;
  if (place != 0) {
    while ((place & distance) == 0) distance *= 2;
    const int parent = ranks.rank_at(place - distance);
    Request request = exchange.receive(parent, 0, message.data(), message.size());
    exchange.wait(request);
    Signature theirs;
    copy_bytes(&theirs, message.data(), kHeader);
    exchange.check_same(signature, parent, theirs);
    copy_bytes(data, message.data() + kHeader, bytes);
  } else {
    while (distance < size) distance *= 2;
    copy_bytes(message.data(), &signature, kHeader);
    copy_bytes(message.data() + kHeader, data, bytes);
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
  for (std::size_t begin = 0; receives && begin < bytes; begin += kSegmentBytes) {
    const std::size_t n = std::min(kSegmentBytes, bytes - begin);
    receiving.push_back(exchange.receive(ranks.rank_at(place - 1), 0, data + begin, n));
  }
  for (std::size_t begin = 0, i = 0; begin < bytes; begin += kSegmentBytes, ++i) {
    if (receives) exchange.wait(receiving[i]);
    const std::size_t n = std::min(kSegmentBytes, bytes - begin);
    if (sends_on) sending.push_back(exchange.send(ranks.rank_at(place + 1), 0, data + begin, n));
  }
  exchange.wait(sending);
}

}  // namespace sullae::p2p
