#include <array>

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
  const int right = (rank() + 1) % size();
  const int left = (rank() + size() - 1) % size();
  Signature theirs;
  send_and_receive(right, &signature, sizeof signature, left, &theirs, sizeof theirs,
                   kSignatureStep);
  check_same(signature, left, theirs);
}

void Exchange::check_same(const Signature& mine, int peer, const Signature& theirs) const {
  if (mine == theirs) return;
  throw labels_.mismatch(transport_.world_rank(rank()), mine, transport_.world_rank(peer), theirs);
}

void combine(const Reduction& reduction, const void* a, const void* b, void* out, std::size_t count,
             Stage stage, int group_size) {
  const void* inputs[2] = {a, b};
  ReduceOp op = reduction.op;
  if (op == ReduceOp::average && stage == Stage::partial) op = ReduceOp::sum;
  reduction::run({inputs, 2, &out, 1, count, op, group_size}, reduction.type);
}

}  // namespace sullae::p2p
