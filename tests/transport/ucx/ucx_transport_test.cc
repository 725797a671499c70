#include "transport/ucx/ucx_transport.h"

#include <gtest/gtest.h>

#include <csignal>
#include <functional>
#include <latch>
#include <numeric>
#include <thread>

#include "support/errors.h"
#include "support/program.h"
#include "support/variable.h"
#include "transport/store/store_rendezvous.h"
#include "transport/store/store_server.h"

namespace sullae::testing {
namespace {

constexpr std::chrono::seconds kPatience{20};
constexpr int kLargeGroup = 65;  // so large that ranks connect with the first message

TransportOptions options_of(int rank, int size = kLargeGroup) {
  std::vector<int> ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return {.name = "test", .ranks = ranks, .index = rank, .timeout = {kPatience, "test"}};
}

// Rank 1 connects to rank 0, which accepts but has nothing to say to it. When it does, rank 1 is
// gone, with what rank 0 answered unread. UCX 1.13 aborted here.
TEST(UcxTransport, APeerThatConnectedAndDiedBeforeTheFirstWordToItIsNamed) {
  const auto address = StoreAddress::parse("unix:" + unique_mark());
  const StoreServer server(address);
  Store store(address, {kPatience, "the test's patience"});
  StoreRendezvous rendezvous(store, 0, {kPatience, "test"});
  const auto zero = make_ucx_transport(rendezvous, options_of(0));
  Program victim({UCX_VICTIM, address.to_string(), "1", std::to_string(kLargeGroup)});
  ASSERT_TRUE(victim.wait_for_output("sent"));

  std::thread other([&] {
    Store own(address, {kPatience, "the test's patience"});
    StoreRendezvous own_rendezvous(own, 2, {kPatience, "test"});
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

// Where a socket is full, UCX keeps what it has copied and calls the message sent. A rank that then
// waits in another group, or computes, does nothing for it: the other would wait for ever.
TEST(UcxTransport, WhatWasSentArrivesThoughItsSenderDoesNothingMore) {
  const Variable tcp("UCX_TLS", "tcp,self");
  const Variable room("UCX_TCP_SNDBUF", "8k");
  const auto address = StoreAddress::parse("unix:" + unique_mark());
  const StoreServer server(address);
  constexpr std::size_t kMessages = 400;
  constexpr std::size_t kBytes = 5000;
  const auto on_rank = [&](int rank, const std::function<void(Transport&)>& body) {
    return std::thread([=] {
      Store store(address, {kPatience, "the test's patience"});
      StoreRendezvous rendezvous(store, rank, {kPatience, "test"});
      const auto transport = make_ucx_transport(rendezvous, options_of(rank, 2));
      body(*transport);
    });
  };
  std::latch received(1);
  auto sender = on_rank(0, [&](Transport& transport) {
    std::vector<std::vector<char>> messages;
    std::vector<Request> requests;
    for (std::size_t i = 0; i < kMessages; ++i) {
      messages.emplace_back(kBytes, static_cast<char>(i));
      requests.push_back(transport.send(1, i, messages[i].data(), messages[i].size()));
    }
    transport.wait(requests);
    received.wait();
  });
  auto receiver = on_rank(1, [&](Transport& transport) {
    std::this_thread::sleep_for(std::chrono::milliseconds{200});
    for (std::size_t i = 0; i < kMessages; ++i) {
      std::vector<char> message(kBytes);
      Request request = transport.receive(0, i, message.data(), message.size());
      transport.wait(request);
      EXPECT_EQ(message, std::vector<char>(kBytes, static_cast<char>(i)));
    }
    received.count_down();
  });
  sender.join();
  receiver.join();
}

}  // namespace
}  // namespace sullae::testing
