#include "collective/p2p/p2p_communicator.h"

#include <exception>
#include <vector>

#include "base/copy.h"
#include "collective/p2p/allreduce_algorithms.h"
#include "collective/reduce/reduce.h"
#include "collective/send_buffer.h"
#include "sullae/error.h"

namespace sullae {
using namespace p2p;

template <class Collective>
void P2pCommunicator::run(const Collective& collective) {
  const std::uint64_t sequence = sequence_++;
  transport_->set_alarm(make_tag(sequence, kAlarmStep), sequence);
  Exchange exchange(*transport_, sequence, scratch_, labels_);
  try {
    collective(exchange);
  } catch (const Alarm&) {
    throw;
  } catch (const MismatchError& error) {
    transport_->abandon();
    transport_->raise_alarm(error.what(), std::nullopt);
    throw;
  } catch (...) {  // such as std::bad_alloc, with messages under way
    transport_->abandon();
    throw;
  }
}

std::vector<std::string> P2pCommunicator::allreduce_algorithms() const {
  std::vector<std::string> names = {algorithm_};
  if (algorithm_ != "auto") return names;  // as the user wants it
  for (const auto& algorithm : p2p::allreduce_algorithms()) {
    if (algorithm.can_run(size())) names.push_back(algorithm.name);
  }
  return names;
}

void P2pCommunicator::fail(std::string_view reason, std::optional<int> rank) {
  std::exception_ptr problem;
  for (const std::uint64_t sequence : {sequence_ - 1, sequence_}) {
    transport_->set_alarm(make_tag(sequence, kAlarmStep), sequence);
    try {
      transport_->raise_alarm(reason, rank);
    } catch (...) {  // whoever waits in the next one is told nevertheless
      problem = std::current_exception();
    }
  }
  if (problem) std::rethrow_exception(problem);
}

void P2pCommunicator::allreduce(const void* in, void* out, std::size_t count, DataType type,
                                ReduceOp op) {
  if (op == ReduceOp::adasum) return adasum(in, out, {&count, 1}, type);
  reduction::check_supported(type, op);
  const Reduction reduction{static_cast<const std::byte*>(in), static_cast<std::byte*>(out), count,
                            type, op};
  run([&](Exchange& exchange) {
    const Signature signature =
        labels_.stamp({.operation = Operation::allreduce, .type = type, .op = op, .count = count});
    choose_allreduce(algorithm_, count * reduction.width(), size())
        .run(exchange, signature, reduction);
  });
}

void P2pCommunicator::reduce(const void* in, void* out, std::size_t count, DataType type,
                             ReduceOp op, int root) {
  reduction::check_elementwise(type, op);
  Reduction reduction{static_cast<const std::byte*>(in), static_cast<std::byte*>(out), count, type,
                      op};
  const std::size_t width = reduction.width();
  run([&](Exchange& exchange) {
    const Signature signature = labels_.stamp(
        {.operation = Operation::reduce, .type = type, .op = op, .root = root, .count = count});
    if (count * width <= kLatencyBytes) return reduce_tree(exchange, signature, reduction, root);

    // Each rank reduces a part, and the root collects the parts.
    const auto counts = equal_counts(count, size());
    const auto offsets = offsets_of(counts);
    const auto me = static_cast<std::size_t>(rank());
    std::vector<std::byte> own(rank() == root ? 0 : counts[me] * width);
    std::byte* const into =
        rank() == root ? static_cast<std::byte*>(out) + offsets[me] * width : own.data();
    reduction.out = into;
    reducescatter_ring(exchange, signature, reduction, counts);
    constexpr std::uint64_t kCollectStep = 0x8000;
    std::vector<Request> requests;
    if (rank() != root)
      requests.push_back(exchange.send(root, kCollectStep, own.data(), own.size()));
    for (std::size_t i = 0; rank() == root && i < counts.size(); ++i) {
      if (i == me) continue;
      requests.push_back(exchange.receive(static_cast<int>(i), kCollectStep,
                                          static_cast<std::byte*>(out) + offsets[i] * width,
                                          counts[i] * width));
    }
    exchange.wait(requests);
  });
}

void P2pCommunicator::reducescatter(const void* in, void* out, std::span<const std::size_t> counts,
                                    DataType type, ReduceOp op) {
  reduction::check_elementwise(type, op);
  const Reduction reduction{static_cast<const std::byte*>(in), static_cast<std::byte*>(out),
                            offsets_of(counts).back(), type, op};
  run([&](Exchange& exchange) {
    reducescatter_ring(exchange,
                       labels_.stamp({.operation = Operation::reducescatter,
                                      .type = type,
                                      .op = op,
                                      .count = hash_of(counts)}),
                       reduction, counts);
  });
}

void P2pCommunicator::allgather(const void* in, void* out, std::span<const std::size_t> counts,
                                DataType type) {
  auto offsets = offsets_of(counts);
  for (auto& offset : offsets) offset *= element_size(type);
  const auto me = static_cast<std::size_t>(rank());
  auto* into = static_cast<std::byte*>(out);
  const std::size_t own_bytes = offsets[me + 1] - offsets[me];
  if (into + offsets[me] != in) copy_bytes(into + offsets[me], in, own_bytes);
  run([&](Exchange& exchange) {
    const Signature signature =
        labels_.stamp({.operation = Operation::allgather, .type = type, .count = hash_of(counts)});
    const auto algorithm = offsets.back() <= kLatencyBytes ? allgather_direct : allgather_ring;
    algorithm(exchange, signature, into, offsets);
  });
}

void P2pCommunicator::broadcast(void* data, std::size_t count, DataType type, int root) {
  run([&](Exchange& exchange) {
    const Signature signature = labels_.stamp(
        {.operation = Operation::broadcast, .type = type, .root = root, .count = count});
    const std::size_t bytes = count * element_size(type);
    const auto algorithm = bytes <= kLatencyBytes ? broadcast_tree : broadcast_chain;
    algorithm(exchange, signature, static_cast<std::byte*>(data), bytes, root);
  });
}

// Pairwise: in step i every rank sends to the i-th on its right and receives from the i-th on its
// left.
void P2pCommunicator::alltoall(const void* in, std::span<const std::size_t> send_counts, void* out,
                               std::span<const std::size_t> receive_counts, DataType type) {
  const std::size_t width = element_size(type);
  const auto send_offsets = offsets_of(send_counts);
  const auto receive_offsets = offsets_of(receive_counts);
  const auto me = static_cast<std::size_t>(rank());
  const SendBuffer kept(in, out, send_offsets.back() * width);
  const std::byte* const from = kept.data();
  auto* into = static_cast<std::byte*>(out);
  run([&](Exchange& exchange) {
    // Of which the others hear, too.
    if (send_counts[me] != receive_counts[me])
      throw MismatchError("alltoall: a rank's send and receive counts for itself differ");
    copy_bytes(into + receive_offsets[me] * width, from + send_offsets[me] * width,
               send_counts[me] * width);
    exchange.check_neighbours(labels_.stamp({.operation = Operation::alltoall, .type = type}));
    const auto ranks = static_cast<std::size_t>(size());
    for (std::size_t i = 1; i < ranks; ++i) {
      const std::size_t to = (me + i) % ranks;
      const std::size_t source = (me + ranks - i) % ranks;
      exchange.send_and_receive(static_cast<int>(to), from + send_offsets[to] * width,
                                send_counts[to] * width, static_cast<int>(source),
                                into + receive_offsets[source] * width,
                                receive_counts[source] * width, i);
    }
  });
}

// Dissemination: after step k every rank has heard, directly or not, of 2^(k+1) ranks.
void P2pCommunicator::barrier() {
  run([&](Exchange& exchange) {
    const Signature signature = labels_.stamp({});
    exchange.check_neighbours(signature);  // which are at the first distance
    std::uint64_t step = 0;
    for (int distance = 2; distance < size(); distance *= 2, ++step) {
      const int left = (rank() + size() - distance) % size();
      Signature theirs;
      exchange.send_and_receive((rank() + distance) % size(), &signature, sizeof signature, left,
                                &theirs, sizeof theirs, step);
      exchange.check_same(signature, left, theirs);
    }
  });
}

}  // namespace sullae
