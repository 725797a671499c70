#include <array>
#include <bit>

#include "collective/p2p/p2p.h"
#include "collective/reduce/reduce.h"
#include "sullae/error.h"

namespace sullae::p2p {

void Exchange::send_and_receive(int to, const void* out, std::size_t out_bytes, int from, void* in,
                                std::size_t in_bytes, std::uint64_t step) {
  // Receive first: a message that is expected needs no copy on arrival.
  Request receiving = receive(from, step, in, in_bytes);
  std::array<Request, 2> both = {send(to, step, out, out_bytes), receiving};
  wait(both);
}

void Exchange::check_neighbours(const Signature& signature) {
  begin_check(signature);
  end_check();
}

void Exchange::begin_check(const Signature& signature) {
  mine_ = signature;
  check_[0] = receive((rank() + size() - 1) % size(), kSignatureStep, &left_, sizeof left_);
  check_[1] = send((rank() + 1) % size(), kSignatureStep, &mine_, sizeof mine_);
}

void Exchange::end_check() {
  wait(check_);
  check_same(mine_, (rank() + size() - 1) % size(), left_);
}

void Exchange::check_same(const Signature& mine, int peer, const Signature& theirs) const {
  if (mine == theirs) return;
  throw labels_.mismatch(transport_.world_rank(rank()), mine, transport_.world_rank(peer), theirs);
}

void combine(const Reduction& reduction, Partial a, Partial b, void* out, std::size_t count,
             int group_size) {
  const auto power_next_to = [](int ranks) {
    return static_cast<int>(std::bit_ceil(static_cast<unsigned>(ranks)));
  };
  const void* const inputs[2] = {a.values, b.values};
  const int weights[2] = {power_next_to(a.ranks), power_next_to(b.ranks)};
  const int ranks = a.ranks + b.ranks;
  reduction::Task task{inputs, 2, &out, 1, count, reduction.op, group_size};
  if (reduction.op == ReduceOp::average && reduction.type == DataType::float16) {
    task.weights = weights;
    if (ranks < group_size) task.divisor = power_next_to(ranks);
  } else if (reduction.op == ReduceOp::average && ranks < group_size) {
    task.op = ReduceOp::sum;
  }
  reduction::run(task, reduction.type);
}

}  // namespace sullae::p2p
