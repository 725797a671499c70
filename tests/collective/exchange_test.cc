// Whatever ends a collective, its messages do not outlive it.
#include <gtest/gtest.h>

#include <array>
#include <future>
#include <stdexcept>
#include <thread>

#include "collective/p2p/p2p.h"
#include "support/program.h"
#include "transport/store/store_rendezvous.h"
#include "transport/store/store_server.h"
#include "transport/ucx/ucx_transport.h"

namespace sullae::testing {
namespace {

constexpr std::chrono::seconds kPatience{20};

// UCX, whose sends fail when a test says so.
class FailingSends final : public Transport {
 public:
  FailingSends(Rendezvous& rendezvous, int rank)
      : inner_(make_ucx_transport(
            rendezvous,
            {.name = "test", .ranks = {0, 1}, .index = rank, .timeout = {kPatience, "test"}})) {}
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  std::string name() const override { return inner_->name(); }
  int world_rank(int peer) const override { return inner_->world_rank(peer); }
  Request send(int peer, std::uint64_t tag, const void* data, std::size_t bytes) override {
    if (failing) throw std::runtime_error("the send fails");
    return inner_->send(peer, tag, data, bytes);
  }
  Request receive(int peer, std::uint64_t tag, void* data, std::size_t bytes) override {
    return inner_->receive(peer, tag, data, bytes);
  }
  void wait(std::span<Request> requests) override { inner_->wait(requests); }
  bool test(Request& request) override { return inner_->test(request); }
  std::optional<Arrival> probe(std::uint64_t tag) override { return inner_->probe(tag); }
  void abandon() noexcept override { inner_->abandon(); }

  bool failing = false;

 private:
  std::unique_ptr<Transport> inner_;
};

TEST(Exchange, NothingArrivesInTheMemoryOfACollectiveThatHasFailed) {
  const auto address = StoreAddress::parse("unix:" + unique_mark());
  const StoreServer server(address);
  const auto run = [&](int rank, const auto& work) {
    Store store(address, {kPatience, "the test's patience"});
    StoreRendezvous rendezvous(store, rank, {kPatience, "test"});
    FailingSends transport(rendezvous, rank);
    p2p::Scratch scratch;
    const Labels labels;
    work(transport,
         [&](std::uint64_t number) { return p2p::Exchange(transport, number, scratch, labels); });
  };
  std::array<int, 4> memory{};
  memory.fill(1);
  const std::array<int, 4> two = {2, 2, 2, 2};
  std::promise<void> failed;
  std::thread other([&] {
    run(1, [&, has_failed = failed.get_future()](FailingSends&, const auto& exchange) {
      // Both collectives' messages; nobody waits for the first. Sent earlier, it could be in the
      // memory before the collective fails, which is allowed.
      has_failed.wait_for(kPatience);
      std::array<int, 4> in{};
      auto first = exchange(1);
      Request late = first.send(0, 0, two.data(), sizeof two);
      exchange(2).send_and_receive(0, two.data(), sizeof two, 0, in.data(), sizeof in, 0);
      first.wait(late);
      EXPECT_EQ(in[0], 3);
    });
  });
  run(0, [&](FailingSends& transport, const auto& exchange) {
    const std::array<int, 4> three = {3, 3, 3, 3};
    transport.failing = true;
    EXPECT_THROW(exchange(1).send_and_receive(1, three.data(), sizeof three, 1, memory.data(),
                                              sizeof memory, 0),
                 std::runtime_error);
    failed.set_value();
    transport.failing = false;
    // What arrives after the first collective's message shows that it would have arrived by now.
    std::array<int, 4> in{};
    exchange(2).send_and_receive(1, three.data(), sizeof three, 1, in.data(), sizeof in, 0);
    EXPECT_EQ(in, two);
    EXPECT_EQ(memory[0], 1);
    EXPECT_EQ(memory[3], 1);
  });
  other.join();
}

}  // namespace
}  // namespace sullae::testing
