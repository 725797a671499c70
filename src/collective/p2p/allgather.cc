#include <vector>

#include "collective/p2p/p2p.h"

namespace sullae::p2p {

void allgather_direct(Exchange& exchange, const Signature& signature, std::byte* out,
                      std::span<const std::size_t> offsets) {
  exchange.check_neighbours(signature);
  const int size = exchange.size();
  const auto part = [&](int rank) {
    const auto index = static_cast<std::size_t>(rank);
    return std::span(out + offsets[index], offsets[index + 1] - offsets[index]);
  };
  const auto own = part(exchange.rank());
  std::vector<Request> requests;
  for (int i = 1; i < size; ++i) {
    const int from = (exchange.rank() + size - i) % size;
    requests.push_back(exchange.receive(from, 0, part(from).data(), part(from).size()));
  }
  for (int i = 1; i < size; ++i) {
    requests.push_back(exchange.send((exchange.rank() + i) % size, 0, own.data(), own.size()));
  }
  exchange.wait(requests);
}

void allgather_ring(Exchange& exchange, const Signature& signature, std::byte* out,
                    std::span<const std::size_t> offsets) {
  exchange.check_neighbours(signature);
  const int size = exchange.size();
  const int right = (exchange.rank() + 1) % size;
  const int left = (exchange.rank() + size - 1) % size;
  for (int step = 0; step < size - 1; ++step) {
    const auto sent = static_cast<std::size_t>((exchange.rank() + size - step) % size);
    const auto received =
        (sent + static_cast<std::size_t>(size) - 1) % static_cast<std::size_t>(size);
    exchange.send_and_receive(right, out + offsets[sent], offsets[sent + 1] - offsets[sent], left,
                              out + offsets[received], offsets[received + 1] - offsets[received],
                              static_cast<std::uint64_t>(step));
  }
}

}  // namespace sullae::p2p
