#include "engine/executor.h"

#include <vector>

#include "engine/scale.h"
#include "sullae/compression.h"
#include "sullae/error.h"

namespace sullae::engine {
namespace {

bool is_fusible(const Agreed& one) {
  return one.request && one.request->signature.operation == Operation::allreduce &&
         one.request->compression.empty();
}

bool reduce_together(const Request& a, const Request& b) {
  return a.signature.type == b.signature.type && a.signature.op == b.signature.op &&
         a.prescale == b.prescale && a.postscale == b.postscale;
}

void complete(Agreed& one, const std::exception_ptr& error) {
  if (one.mine) one.mine->completion->finish(error);
  one = {};
}

void add_pieces(const Agreed& one, std::vector<Piece>& pieces) {
  if (one.mine) {
    for (const TensorBuffers& buffers : one.mine->tensors)
      pieces.push_back({.buffers = buffers, .name = one.request->name});
  } else if (one.request->sizes.empty()) {
    pieces.push_back({.buffers = {.count = one.request->signature.count}, .joined = true});
  } else {
    for (const auto size : one.request->sizes)
      pieces.push_back({.buffers = {.count = size}, .joined = true});
  }
}

}  // namespace

void Executor::run(std::vector<Agreed> agreed) {
  try {
    for (std::size_t i = 0; i < agreed.size(); ++i) {
      if (!agreed[i].request) continue;  // done with an earlier one
      try {
        if (is_fusible(agreed[i])) {
          run_allreduces(agreed, i);
        } else {
          run_one(agreed[i]);
          complete(agreed[i], nullptr);
        }
      } catch (const MismatchError&) {
        complete(agreed[i], std::current_exception());
      }
    }
  } catch (...) {  // a user's compression may throw anything
    ends_(std::current_exception());
    for (Agreed& one : agreed) {
      if (one.request) complete(one, std::current_exception());
    }
    throw;
  }
}

void Executor::run_allreduces(std::vector<Agreed>& all, std::size_t first) {
  const Request kind = *all[first].request;
  std::vector<std::size_t> members;
  std::vector<Piece> pieces;
  for (std::size_t i = first; i < all.size(); ++i) {
    if (!is_fusible(all[i]) || !reduce_together(kind, *all[i].request)) continue;
    members.push_back(i);
    add_pieces(all[i], pieces);
  }
  fused_.run({.type = kind.signature.type,
              .op = kind.signature.op,
              .prescale = kind.prescale,
              .postscale = kind.postscale},
             pieces);
  for (const auto i : members) complete(all[i], nullptr);
}

void Executor::run_one(const Agreed& one) {
  const Request& request = *one.request;
  const auto [operation, type, op, reserved, root, count, label] = request.signature;
  const std::vector<std::size_t> counts(request.sizes.begin(), request.sizes.end());
  const Span span(timeline_, Lane::negotiated, operation, request.name, count * element_size(type));
  // A rank that has joined contributes zeros, and what it receives is thrown away.
  std::vector<std::byte> zeros;
  std::vector<std::byte> unwanted;
  TensorBuffers buffers;
  if (one.mine) {
    if (!one.mine->tensors.empty()) buffers = one.mine->tensors.front();
  } else {
    zeros.resize(count * element_size(type));
    unwanted.resize(count * element_size(type));
    buffers = {.in = zeros.data(), .out = unwanted.data(), .count = count};
  }
  switch (operation) {
    case Operation::reduce:
      return communicator_.reduce(buffers.in, buffers.out, count, type, op, root);
    case Operation::reducescatter:
      return communicator_.reducescatter(buffers.in, buffers.out, counts, type, op);
    case Operation::allgather:
      return communicator_.allgather(buffers.in, buffers.out, counts, type);
    case Operation::broadcast:
      return communicator_.broadcast(buffers.out, count, type, root);
    case Operation::alltoall:
      return communicator_.alltoall(buffers.in, one.mine->counts, buffers.out,
                                    one.mine->receive_counts, type);
    case Operation::barrier:
      return communicator_.barrier();
    case Operation::allreduce:
      return run_compressed(one);
    case Operation::composed:
      return one.mine->composed(communicator_);
    case Operation::allocate:
      return;
  }
}

void Executor::run_compressed(const Agreed& one) {
  const Request& request = *one.request;
  const auto [in, out, count] = one.mine->tensors.front();
  const DataType type = request.signature.type;
  if (in != out || request.prescale != 1.0) scale(in, out, count, type, request.prescale);
  one.mine->compression->allreduce(communicator_, static_cast<float*>(out), count,
                                   request.signature.op);
  if (request.postscale != 1.0) scale(out, out, count, type, request.postscale);
}

}  // namespace sullae::engine
