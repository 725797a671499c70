// A rank that starts to talk to rank 0 and then does no more, until ucx_transport_test kills it.
// Usage: ucx_victim <store address> <rank> <size>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <numeric>

#include "transport/store/store_rendezvous.h"
#include "transport/ucx/ucx_transport.h"

int main(int argc, char** argv) {
  using namespace sullae;
  if (argc != 4) return 2;
  const std::chrono::seconds patience{20};
  Store store(StoreAddress::parse(argv[1]), {patience, "the test's patience"});
  std::vector<int> ranks(std::strtoul(argv[3], nullptr, 10));
  std::iota(ranks.begin(), ranks.end(), 0);
  const int rank = std::atoi(argv[2]);
  StoreRendezvous rendezvous(store, rank, {patience, "test"});
  const auto transport =
      make_ucx_transport(rendezvous, {.name = "test",
                                      .ranks = ranks,
                                      .index = rank,
                                      .timeout = {std::chrono::milliseconds{500}, "test"}});
  char byte = 0;
  Request request = transport->send(0, 1, &byte, 1);
  try {
    transport->wait(request);
  } catch (const TimeoutError&) {
    // Rank 0 has not answered: the request to connect lies in its socket.
  }
  std::puts("sent");
  std::fflush(stdout);
  ::pause();
}
