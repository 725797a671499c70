#include "transport/ucx/ucx_transport.h"

#include <gtest/gtest.h>

#include <csignal>
#include <numeric>
#include <thread>

#include "support/errors.h"
#include "support/program.h"
#include "transport/store/store_rendezvous.h"
#include "transport/store/store_server.h"

namespace sullae::testing {
namespace {

constexpr std::chrono::seconds kPatience{20};
constexpr int kLargeGroup = 65;  // so large that ranks connect with the first message

TransportOptions options_of(int rank) {
  std::vector<int> ranks(kLargeGroup);
  std::iota(ranks.begin(), ranks.end(), 0);
  return {.name = "test", .ranks = ranks, .index = rank, .timeout = kPatience};
}

// Rank 1 connects to rank 0, which accepts but has nothing to say to it. When it does, rank 1 is
// gone, with what rank 0 answered unread. UCX 1.13 aborted here.
TEST(UcxTransport, APeerThatConnectedAndDiedBeforeTheFirstWordToItIsNamed) {
  const auto address = StoreAddress::parse("unix:" + unique_mark());
  const StoreServer server(address);
  Store store(address, {kPatience, "the test's patience"});
  StoreRendezvous rendezvous(store, 0, kPatience);
  const auto zero = make_ucx_transport(rendezvous, options_of(0));
  Program victim({UCX_VICTIM, address.to_string(), "1", std::to_string(kLargeGroup)});
  ASSERT_TRUE(victim.wait_for_output("sent"));

  std::thread other([&] {
    Store own(address, {kPatience, "the test's patience"});
    StoreRendezvous own_rendezvous(own, 2, kPatience);
    const auto two = make_ucx_transport(own_rendezvous, options_of(2));
    char byte = 0;
    Request request = two->send(0, 2, &byte, 1);
    two->wait(request);
  });
  char byte = 0;
  Request from_two = zero->receive(2, 2, &byte, 1);
  zero->wait(from_two);  // meanwhile it accepts rank 1's connection
  other.join();

  victim.signal(SIGKILL);
  EXPECT_EQ(victim.wait().exit_code, 128 + SIGKILL);
  const std::string error = error_of([&] {
    Request to_one = zero->send(1, 3, &byte, 1);
    zero->wait(to_one);
    Request from_one = zero->receive(1, 4, &byte, 1);
    zero->wait(from_one);
  });
  EXPECT_TRUE(contains(error, "rank 1")) << error;
}

}  // namespace
}  // namespace sullae::testing
