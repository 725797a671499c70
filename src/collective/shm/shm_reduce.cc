// Reductions between the ranks of a host. Five ways, by size and by where the buffers are:
//
//   in cells    Up to 32 bytes: the values travel in the announcement itself, one cache line a rank.
//   in slots    Small: everybody writes all of its values to its slot and reduces everybody's; one
//               wait.
//   in place    Both buffers of every rank are in shared buffers: each rank reduces its share of
//               the elements straight from its peers' memory into its peers' memory. Nothing is
//               copied; the floor is the memory bandwidth.
//   by reading  Large, ordinary memory, where the kernel lets ranks read each other's and that is measured
//               to be faster on this machine than what follows: each rank
//               reduces its share from copies that the kernel makes straight from its peers'
//               memory, and then reads the shares of the others. One copy instead of two.
//   pipelined   Ordinary memory otherwise, in chunks of the slots' size. While a chunk is copied
//               in, the one before is reduced and the one before that is copied out, so that the
//               slots stay in the cache, and one wait a chunk is enough.
#include <algorithm>
#include <array>
#include <bit>
#include <chrono>

#include "base/copy.h"
#include "collective/reduce/reduce.h"
#include "collective/shm/shm_communicator.h"

namespace sullae::shm {
namespace {

// Above this, the reads of every rank from every rank cost more than a second wait.
constexpr std::size_t kInSlotsBytes = std::size_t{16} << 10;

constexpr std::size_t kCacheLine = 64;

// Between these sizes, and with one peer to read from, a system call a chunk may cost less than a
// second copy: on some processors, so it is tried. Larger buffers do not stay in the caches, and
// the pipeline passes over them but once; see docs/performance.md.
constexpr std::size_t kReadFromBytes = std::size_t{2} << 20;
constexpr std::size_t kReadToBytes = std::size_t{32} << 20;
// Of each way in turn; the first ones fault pages in.
constexpr int kTrialCalls = 4;

// What is read at a time, so that it is reduced while it is in the second-level cache.
constexpr std::size_t kReadBytes = std::size_t{256} << 10;

struct Places {
  SharedPlace in;
  SharedPlace out;
};
static_assert(sizeof(Places) <= kCellPayload);

}  // namespace

void ShmCommunicator::allreduce(const void* in, void* out, std::size_t count, DataType type,
                                ReduceOp op) {
  if (op == ReduceOp::adasum) return adasum(in, out, {&count, 1}, type);
  reduction::check_supported(type, op);
  const Signature signature{
      .operation = Operation::allreduce, .type = type, .op = op, .count = count};
  reduce_any(signature, {static_cast<const std::byte*>(in), static_cast<std::byte*>(out), count,
                         type, op, kEverybody});
}

void ShmCommunicator::reduce(const void* in, void* out, std::size_t count, DataType type,
                             ReduceOp op, int root) {
  reduction::check_elementwise(type, op);
  const Signature signature{
      .operation = Operation::reduce, .type = type, .op = op, .root = root, .count = count};
  auto* into = rank() == root ? static_cast<std::byte*>(out) : nullptr;
  reduce_any(signature, {static_cast<const std::byte*>(in), into, count, type, op, root});
}

void ShmCommunicator::reduce_any(const Signature& signature, const Reduction& reduction) {
  const std::size_t bytes = reduction.count * element_size(reduction.type);
  if (bytes <= kCellPayload) {
    reduce_in_cells(signature, reduction);
  } else if (bytes <= kInSlotsBytes) {
    reduce_in_slots(signature, reduction);
  } else if (!reduce_in_place(signature, reduction)) {
    reduce_large(reduction);
  }
}

void ShmCommunicator::reduce_large(const Reduction& reduction) {
  const std::size_t bytes = reduction.count * element_size(reduction.type);
  if (size() != 2 || bytes < kReadFromBytes || bytes > kReadToBytes || !group_.can_read_peers())
    return reduce_pipelined(reduction);
  Trial& trial = trials_.at(std::bit_width(bytes) - std::bit_width(kReadFromBytes));
  const bool trying = trial.calls < 2 * kTrialCalls && reduction.root == kEverybody;
  const bool reads = trying ? trial.calls % 2 == 0 : trial.reads;
  const auto start = std::chrono::steady_clock::now();
  reads ? reduce_by_reading(reduction) : reduce_pipelined(reduction);
  if (!trying) return;
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  double& least = trial.least[reads ? 0 : 1];
  const double now = took.count() / static_cast<double>(bytes);
  least = trial.calls < 2 ? now : std::min(least, now);
  if (++trial.calls < 2 * kTrialCalls) return;
  std::array<double, 2> sums{};
  for (const auto& shared : group_.share(std::as_bytes(std::span(trial.least)))) {
    std::array<double, 2> theirs;
    copy_bytes(theirs.data(), shared.data(), sizeof theirs);
    for (std::size_t way = 0; way < sums.size(); ++way) sums[way] += theirs[way];
  }
  trial.reads = sums[0] <= sums[1];
}

void ShmCommunicator::reduce_in_cells(const Signature& signature, const Reduction& reduction) {
  const std::size_t bytes = reduction.count * element_size(reduction.type);
  group_.exchange(signature, {reduction.in, bytes});
  if (reduction.out == nullptr) return;
  std::vector<const void*> inputs(static_cast<std::size_t>(size()));
  for (int i = 0; i < size(); ++i) inputs[static_cast<std::size_t>(i)] = group_.payload(i);
  void* const output = reduction.out;
  reduction::run({inputs.data(), inputs.size(), &output, 1, reduction.count, reduction.op, size()},
                 reduction.type);
}

void ShmCommunicator::reduce_in_slots(const Signature& signature, const Reduction& reduction) {
  const std::uint64_t announcement = group_.next_announcement();
  copy_bytes(group_.slot(rank(), announcement), reduction.in,
             reduction.count * element_size(reduction.type));
  group_.exchange(signature);
  if (reduction.out == nullptr) return;
  std::vector<const void*> inputs(static_cast<std::size_t>(size()));
  for (int i = 0; i < size(); ++i)
    inputs[static_cast<std::size_t>(i)] = group_.slot(i, announcement);
  void* const output = reduction.out;
  reduction::run({inputs.data(), inputs.size(), &output, 1, reduction.count, reduction.op, size()},
                 reduction.type);
}

// False, with the operation announced and agreed, where some rank's buffers are ordinary memory.
bool ShmCommunicator::reduce_in_place(const Signature& signature, const Reduction& reduction) {
  const std::size_t width = element_size(reduction.type);
  const std::size_t bytes = reduction.count * width;
  Places own{buffers_->find(reduction.in, bytes), {}};
  if (reduction.out != nullptr) own.out = buffers_->find(reduction.out, bytes);
  group_.exchange(signature, std::as_bytes(std::span(&own, 1)));

  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  const Range share = part_of(reduction.count, rank(), size(), kCacheLine);
  for (int i = 0; i < size(); ++i) {
    Places places;
    copy_bytes(&places, group_.payload(i), sizeof places);
    const bool receives = reduction.root == kEverybody || reduction.root == i;
    if (places.in.buffer == 0 || (receives && places.out.buffer == 0)) return false;
    inputs.push_back(buffers_->resolve(places.in, i) + share.begin * width);
    if (receives) outputs.push_back(buffers_->resolve(places.out, i) + share.begin * width);
  }
  reduction::run({inputs.data(), inputs.size(), outputs.data(), outputs.size(), share.size(),
                  reduction.op, size()},
                 reduction.type);
  group_.step();
  return true;
}

void ShmCommunicator::reduce_by_reading(const Reduction& reduction) {
  const std::size_t width = element_size(reduction.type);
  const int me = rank();
  // A rank that does not receive needs a place for its share, where those that do can read it.
  const Range share = part_of(reduction.count, me, size(), kCacheLine);
  std::vector<std::byte> own_share(reduction.out == nullptr ? share.size() * width : 0);
  std::byte* const result =
      reduction.out == nullptr ? own_share.data() : reduction.out + share.begin * width;
  struct Addresses {
    const std::byte* in;
    const std::byte* result;
  };
  const Addresses own{reduction.in, result};
  const auto all = group_.share(std::as_bytes(std::span(&own, 1)));
  std::vector<Addresses> addresses;
  for (const auto& payload : all) {
    addresses.emplace_back();
    copy_bytes(&addresses.back(), payload.data(), sizeof(Addresses));
  }

  const std::size_t chunk =
      kReadBytes / static_cast<std::size_t>(size() - 1) / kCacheLine * kCacheLine / width;
  copies_.resize(static_cast<std::size_t>(size()) * chunk * width);
  std::vector<const void*> inputs(static_cast<std::size_t>(size()));
  for (std::size_t begin = share.begin; begin < share.end; begin += chunk) {
    const std::size_t count = std::min(chunk, share.end - begin);
    for (int i = 0; i < size(); ++i) {
      const auto index = static_cast<std::size_t>(i);
      inputs[index] = reduction.in + begin * width;
      if (i == me) continue;
      std::byte* const copy = copies_.data() + index * chunk * width;
      group_.read_peer(i, addresses[index].in + begin * width, copy, count * width);
      inputs[index] = copy;
    }
    void* const output = result + (begin - share.begin) * width;
    reduction::run({inputs.data(), inputs.size(), &output, 1, count, reduction.op, size()},
                   reduction.type);
  }
  group_.step();
  for (int i = 0; i < size() && reduction.out != nullptr; ++i) {
    if (i == me) continue;
    const Range theirs = part_of(reduction.count, i, size(), kCacheLine);
    group_.read_peer(i, addresses[static_cast<std::size_t>(i)].result,
                     reduction.out + theirs.begin * width, theirs.size() * width);
  }
  // Nobody may change its memory while others read it.
  group_.step();
}

void ShmCommunicator::reduce_pipelined(const Reduction& reduction) {
  const std::size_t width = element_size(reduction.type);
  const std::size_t chunk = kSlotBytes / width;
  const std::size_t chunks = (reduction.count + chunk - 1) / chunk;
  const int me = rank();
  std::vector<std::uint64_t> announcements;
  std::vector<const void*> inputs(static_cast<std::size_t>(size()));

  const auto count_of = [&](std::size_t k) {
    return std::min(chunk, reduction.count - k * chunk);
  };
  const auto share_of = [&](std::size_t k, int member) {
    return part_of(count_of(k), member, size(), kCacheLine);
  };

  const auto copy_in = [&](std::size_t k) {
    const std::uint64_t announcement = group_.next_announcement();
    announcements.push_back(announcement);
    for (int i = 0; i < size(); ++i) {
      if (i == me) continue;
      const Range share = share_of(k, i);
      copy_bytes(group_.slot(me, announcement) + share.begin * width,
                 reduction.in + (k * chunk + share.begin) * width, share.size() * width);
    }
  };
  const auto reduce_share = [&](std::size_t k) {
    const Range share = share_of(k, me);
    for (int i = 0; i < size(); ++i) {
      inputs[static_cast<std::size_t>(i)] =
          i == me ? reduction.in + (k * chunk + share.begin) * width
                  : group_.slot(i, announcements[k]) + share.begin * width;
    }
    void* outputs[2] = {group_.result_slot(me, k), nullptr};
    if (reduction.out != nullptr) outputs[1] = reduction.out + (k * chunk + share.begin) * width;
    const std::size_t output_count = reduction.out != nullptr ? 2 : 1;
    reduction::run(
        {inputs.data(), inputs.size(), outputs, output_count, share.size(), reduction.op, size()},
        reduction.type);
  };
  const auto copy_out = [&](std::size_t k) {
    if (reduction.out == nullptr) return;
    for (int i = 0; i < size(); ++i) {
      if (i == me) continue;
      const Range share = share_of(k, i);
      copy_bytes(reduction.out + (k * chunk + share.begin) * width, group_.result_slot(i, k),
                 share.size() * width);
    }
  };

  for (std::size_t turn = 0; turn < chunks + 2; ++turn) {
    if (turn < chunks) copy_in(turn);
    if (turn >= 1 && turn <= chunks) reduce_share(turn - 1);
    if (turn >= 2) copy_out(turn - 2);
    if (turn <= chunks) group_.step();
  }
}

}  // namespace sullae::shm
