// Ranks that submit, join, fail and leave in any order: every rank decides the same, and nothing is
// lost. And announcements that no rank makes, which are an error.
#include <cstdint>
#include <cstdlib>
#include <numeric>
#include <string>

#include "engine/negotiation/negotiator.h"
#include "fuzz/memory_file.h"

namespace {

using namespace sullae;
using namespace sullae::engine;

void expect(bool condition) {
  if (!condition) std::abort();
}

class Ranks {
 public:
  Ranks(int size, std::size_t capacity) : outstanding_(static_cast<std::size_t>(size)) {
    std::vector<int> names(static_cast<std::size_t>(size));
    std::iota(names.begin(), names.end(), 0);
    for (int rank = 0; rank < size; ++rank) ranks_.emplace_back(rank, names, capacity);
  }

  void submit(std::size_t rank, int name, std::size_t count, ReduceOp op) {
    auto submission = std::make_unique<Submission>();
    submission->request = {
        .name = std::to_string(name),
        .signature = {.operation = Operation::allreduce, .op = op, .count = count}};
    ++outstanding_[rank];
    ranks_[rank].submit(std::move(submission));
  }
  void join(std::size_t rank) { ranks_[rank].join(); }
  void give_up(int name) { ranks_[0].give_up({std::to_string(name), ""}); }

  void cycle() {
    std::vector<std::string> said;
    for (auto& rank : ranks_) said.push_back(rank.announce());
    std::vector<std::string> first;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      const Decision decision = ranks_[rank].apply(said);
      std::vector<std::string> agreed;
      for (const Agreed& one : decision.agreed) {
        agreed.push_back(one.request->name + one.request->describe());
        if (one.mine) --outstanding_[rank];
      }
      outstanding_[rank] -= static_cast<long>(decision.refused.size());
      if (rank == 0) first = agreed;
      expect(agreed == first);
      expect(outstanding_[rank] >= 0);
    }
  }

  // All that was submitted is still somewhere.
  void end() {
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
      expect(static_cast<long>(ranks_[rank].take_all().size()) == outstanding_[rank]);
  }

 private:
  std::vector<Negotiator> ranks_;
  std::vector<long> outstanding_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 3) return 0;
  if (data[0] == 0) {
    // Whatever bytes come from a rank.
    fuzz::expect_no_more_than_an_error([&] {
      Negotiator negotiator(0, {0, 1}, 2);
      const std::string one(reinterpret_cast<const char*>(data) + 1, size - 1);
      for (int i = 0; i < 2; ++i) {
        const std::string said[] = {negotiator.announce(), one};
        negotiator.apply(said);
      }
    });
    return 0;
  }
  const std::size_t ranks = 1 + data[0] % 4;
  Ranks world(static_cast<int>(ranks), data[1] % 5);
  for (std::size_t i = 2; i < size; ++i) {
    const std::size_t rank = data[i] % ranks;
    const int name = (data[i] >> 2) % 6;
    switch (data[i] >> 5) {
      case 0:
      case 1:
        world.cycle();
        break;
      case 2:
        world.submit(rank, name, 2, ReduceOp::sum);
        break;
      case 3:
        world.submit(rank, name, 1, ReduceOp::max);
        break;
      case 4:
        world.join(rank);
        break;
      case 5:
        world.give_up(name);
        break;
      default:
        world.submit(rank, name, 1, ReduceOp::sum);
    }
  }
  world.cycle();
  world.end();
  return 0;
}
