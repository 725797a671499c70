// What docs/extending.md shows: a transport, an algorithm and a compression policy from outside the
// library, each a few lines and one of registration.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>

#include "collective/p2p/allreduce_algorithms.h"
#include "support/errors.h"
#include "support/ranks.h"
#include "support/values.h"
#include "transport/transports.h"

namespace sullae::testing {
namespace {

// Messages go through another transport, and are counted.
class Counting final : public Transport {
 public:
  static inline std::atomic<int> messages{0};

  explicit Counting(std::unique_ptr<Transport> inner) : inner_(std::move(inner)) {}
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  std::string name() const override { return "counting"; }
  int world_rank(int peer) const override { return inner_->world_rank(peer); }
  Request send(int peer, std::uint64_t tag, const void* data, std::size_t bytes) override {
    ++messages;
    return inner_->send(peer, tag, data, bytes);
  }
  Request receive(int peer, std::uint64_t tag, void* data, std::size_t bytes) override {
    return inner_->receive(peer, tag, data, bytes);
  }
  void wait(std::span<Request> requests) override { inner_->wait(requests); }
  bool test(Request& request) override { return inner_->test(request); }
  std::optional<Arrival> probe(std::uint64_t tag) override { return inner_->probe(tag); }
  void abandon() noexcept override { inner_->abandon(); }

 private:
  std::unique_ptr<Transport> inner_;
};

TEST(Extending, ATransportIsAClassAndALine) {
  register_transport({"counting", [](Rendezvous& rendezvous, TransportOptions options) {
                        auto inner = find_transport("ucx")->make(rendezvous, std::move(options));
                        return std::make_unique<Counting>(std::move(inner));
                      }});
  run_ranks({.size = 3, .transport = "counting"}, [](World& world) {
    EXPECT_EQ(world.backend(), "counting");
    int value = 1;
    world.allreduce(&value, &value, 1, DataType::int32);
    EXPECT_EQ(value, 3);
  });
  EXPECT_GT(Counting::messages, 0);
}

// Everybody sends everything to everybody.
void allreduce_direct(p2p::Exchange& exchange, const Signature& signature,
                      const p2p::Reduction& reduction) {
  exchange.check_neighbours(signature);
  const std::size_t bytes = reduction.count * reduction.width();
  const std::vector<std::byte> own(reduction.in, reduction.in + bytes);
  std::vector<std::byte> sum;
  for (int peer = 0; peer < exchange.size(); ++peer) {
    std::vector<std::byte> theirs = own;
    if (peer != exchange.rank())
      exchange.send_and_receive(peer, own.data(), bytes, peer, theirs.data(), bytes, 0);
    if (peer == 0) {
      sum = theirs;
      continue;
    }
    p2p::combine(reduction, {sum.data(), peer}, {theirs.data(), 1}, sum.data(), reduction.count,
                 exchange.size());
  }
  std::ranges::copy(sum, reduction.out);
}

TEST(Extending, AnAlgorithmIsAFunctionAndALine) {
  p2p::register_allreduce_algorithm(
      {.name = "direct",
       .can_run = [](int ranks) { return ranks <= 8; },
       .suits = [](std::size_t, int) { return false; },  // only when it is asked for
       .run = allreduce_direct});
  ::setenv("SULLAE_ALLREDUCE_ALGORITHM", "direct", 1);
  run_ranks({.size = 4, .transport = "ucx"}, [](World& world) {
    for (const std::size_t count : {0U, 1U, 7U, 4099U}) {
      auto values = make_values(world.rank(), count, DataType::float32);
      world.allreduce(values.data(), values.data(), count, DataType::float32, ReduceOp::average);
      for (std::size_t i = 0; i < count; ++i) {
        std::vector<double> inputs;
        for (int rank = 0; rank < 4; ++rank) inputs.push_back(value_at(rank, i, DataType::float32));
        ASSERT_EQ(load(values, i, DataType::float32),
                  expected(inputs, DataType::float32, ReduceOp::average));
      }
    }
  });
  ::unsetenv("SULLAE_ALLREDUCE_ALGORITHM");
}

TEST(Algorithms, CanBeAskedForByName) {
  using p2p::choose_allreduce;
  EXPECT_EQ(choose_allreduce("auto", 4, 4).name, "recursive_doubling");
  EXPECT_EQ(choose_allreduce("auto", 1 << 18, 4).name, "halving_doubling");
  EXPECT_EQ(choose_allreduce("auto", 1 << 18, 3).name, "ring");
  EXPECT_EQ(choose_allreduce("auto", 1 << 24, 4).name, "ring");
  EXPECT_EQ(choose_allreduce("ring", 4, 4).name, "ring");
  EXPECT_EQ(choose_allreduce("halving_doubling", 4, 3).name, "recursive_doubling");
  ::setenv("SULLAE_ALLREDUCE_ALGORITHM", "magic", 1);
  const auto message = error_of([] { World::create({}); });
  ::unsetenv("SULLAE_ALLREDUCE_ALGORITHM");
  EXPECT_TRUE(contains(message, "SULLAE_ALLREDUCE_ALGORITHM='magic': expected one of auto"))
      << message;
  EXPECT_TRUE(contains(message, "recursive_doubling, halving_doubling, ring")) << message;
}

TEST(Algorithms, AllGiveTheSameResult) {
  for (const char* algorithm : {"recursive_doubling", "halving_doubling", "ring"}) {
    ::setenv("SULLAE_ALLREDUCE_ALGORITHM", algorithm, 1);
    for (const int size : {2, 3, 4, 5}) {
      run_ranks({.size = size, .transport = "ucx"}, [&](World& world) {
        for (const std::size_t count : {0U, 1U, 97U, 600011U}) {
          std::vector<std::int64_t> values(count, world.rank() + 1);
          world.allreduce(values.data(), values.data(), count, DataType::int64);
          for (const auto value : values) ASSERT_EQ(value, size * (size + 1) / 2) << algorithm;
        }
      });
    }
  }
  ::unsetenv("SULLAE_ALLREDUCE_ALGORITHM");
}

}  // namespace
}  // namespace sullae::testing
