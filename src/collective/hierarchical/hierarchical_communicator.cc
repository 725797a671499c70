#include "collective/hierarchical/hierarchical_communicator.h"

#include <algorithm>
#include <vector>

#include "base/log.h"
#include "collective/adasum/adasum.h"
#include "collective/counts.h"
#include "collective/reduce/reduce.h"
#include "sullae/error.h"

namespace sullae {
namespace {

// Below this, one rank a host talks to the other hosts: slices would only be more messages.
constexpr std::size_t kSliceBytes = std::size_t{16} << 10;

// Elements are cut at multiples of a cache line of the narrowest type.
constexpr std::size_t kGranule = 64;

// In place.
void scale(std::byte* values, std::size_t count, DataType type, int factor, int divisor) {
  const void* input = values;
  void* output = values;
  reduction::Task task{&input, 1, &output, 1, count, ReduceOp::average, divisor};
  if (factor != 1) task.weights = &factor;
  reduction::run(task, type);
}

}  // namespace

HierarchicalCommunicator::HierarchicalCommunicator(Topology topology,
                                                   std::unique_ptr<Communicator> local,
                                                   std::unique_ptr<Communicator> cross,
                                                   std::unique_ptr<Communicator> flat,
                                                   HierarchicalOptions options)
    : options_(options),
      topology_(std::move(topology)),
      local_(std::move(local)),
      cross_(std::move(cross)),
      flat_(std::move(flat)) {
  const auto [smallest, largest] = std::ranges::minmax_element(
      topology_.hosts, {}, [](const std::vector<int>& ranks) { return ranks.size(); });
  slices_ = static_cast<int>(smallest->size());
  largest_host_ = static_cast<int>(largest->size());
}

// Ranks of other hosts wait for this host's, in collectives of their own: they are told.
template <class Collective>
void HierarchicalCommunicator::guarded(const Collective& collective) {
  if (!failure_.empty()) throw MismatchError(failure_);
  try {
    collective();
  } catch (const MismatchError& error) {
    fail(error.what(), std::nullopt);
    throw;
  }
}

void HierarchicalCommunicator::fail(std::string_view reason, std::optional<int> rank) {
  failure_ = reason;
  for (Communicator* const part : {local_.get(), cross_.get(), flat_.get()}) {
    try {
      if (part != nullptr) part->fail(reason, rank);
    } catch (const std::exception& error) {
      // Of those who are gone themselves, or what has ended the world: others are told
      // nevertheless.
      log::info("not all ranks were told: {}", error.what());
    }
  }
}

HierarchicalCommunicator::Slices HierarchicalCommunicator::slice(std::size_t count,
                                                                 int slices) const {
  auto counts = equal_counts(count, slices, kGranule);
  counts.resize(static_cast<std::size_t>(local_->size()), 0);
  const int rank = topology_.local_rank();
  return {std::move(counts), rank < slices ? part_of(count, rank, slices, kGranule) : Range{}};
}

void HierarchicalCommunicator::allreduce(const void* in, void* out, std::size_t count,
                                         DataType type, ReduceOp op) {
  if (op == ReduceOp::adasum) return adasum(in, out, {&count, 1}, type);
  guarded([&] {
    reduction::check_supported(type, op);
    const std::size_t width = element_size(type);
    const int local_rank = topology_.local_rank();
    const int slices = count * width < kSliceBytes ? 1 : slices_;
    // Hosts may have different numbers of ranks, so the division waits for the sum over all. A sum
    // in float16 may be infinite where the average is not: each host's average counts as much as it
    // has ranks, the largest's fully.
    const bool averages_hosts = op == ReduceOp::average && type == DataType::float16;
    const bool weighs_hosts = averages_hosts && largest_host_ != slices_;
    const ReduceOp partial = op == ReduceOp::average && !averages_hosts ? ReduceOp::sum : op;
    const auto [counts, mine] = slice(count, slices);

    std::byte* const own = static_cast<std::byte*>(out) + mine.begin * width;
    // A local reduce-scatter in place would overwrite values that other ranks have yet to read only
    // if it wrote outside its part; it writes this rank's part alone, after everybody has announced
    // theirs.
    local_->reducescatter(in, own, counts, type, partial);
    if (local_rank < slices) {
      if (weighs_hosts) scale(own, mine.size(), type, local_->size(), largest_host_);
      cross_->allreduce(own, own, mine.size(), type, partial);
      if (weighs_hosts) {
        scale(own, mine.size(), type, topology_.cross_size() * largest_host_, size());
      } else if (partial != op) {
        scale(own, mine.size(), type, 1, size());
      }
    }
    local_->allgather(own, out, counts, type);
  });
}

// Hierarchical: hosts are averaged and combined as one rank each, in slices. The products are those
// of whole tensors: the slices' are added up within the host.
void HierarchicalCommunicator::adasum(const void* in, void* out,
                                      std::span<const std::size_t> tensors, DataType type) {
  if (!options_.hierarchical_adasum) return among_all().adasum(in, out, tensors, type);
  guarded([&] {
    reduction::check_supported(type, ReduceOp::adasum);
    const std::size_t count = offsets_of(tensors).back();
    const bool holds = topology_.local_rank() < slices_;
    const auto [counts, mine] = slice(count, slices_);
    std::byte* const own = static_cast<std::byte*>(out) + mine.begin * element_size(type);
    local_->reducescatter(in, own, counts, type, ReduceOp::average);
    adasum::run({.peers = holds ? cross_.get() : nullptr,
                 .peer_count = topology_.cross_size(),
                 .values = own,
                 .place = mine,
                 .tensors = tensors,
                 .type = type,
                 .sum = [&](std::span<double> values) {
                   if (holds) adasum::add_up(*cross_, values);
                   adasum::add_up(*local_, values);
                 }});
    local_->allgather(own, out, counts, type);
  });
}

void HierarchicalCommunicator::broadcast(void* data, std::size_t count, DataType type, int root) {
  guarded([&] {
    const auto root_index = static_cast<std::size_t>(root);
    const int root_host = topology_.host_of[root_index];
    const int root_local = topology_.local_rank_of[root_index];
    // The rank of each host that receives from the root's host.
    const int courier = root_local < slices_ ? root_local : 0;
    const bool at_home = topology_.cross_rank() == root_host;
    if (at_home) local_->broadcast(data, count, type, root_local);
    if (topology_.local_rank() == courier) cross_->broadcast(data, count, type, root_host);
    if (!at_home) local_->broadcast(data, count, type, courier);
  });
}

// What is between all ranks finds mismatches by itself, and goes on.
Communicator& HierarchicalCommunicator::among_all() {
  if (!failure_.empty()) throw MismatchError(failure_);
  return *flat_;
}

void HierarchicalCommunicator::reduce(const void* in, void* out, std::size_t count, DataType type,
                                      ReduceOp op, int root) {
  among_all().reduce(in, out, count, type, op, root);
}

void HierarchicalCommunicator::reducescatter(const void* in, void* out,
                                             std::span<const std::size_t> counts, DataType type,
                                             ReduceOp op) {
  among_all().reducescatter(in, out, counts, type, op);
}

void HierarchicalCommunicator::allgather(const void* in, void* out,
                                         std::span<const std::size_t> counts, DataType type) {
  among_all().allgather(in, out, counts, type);
}

void HierarchicalCommunicator::alltoall(const void* in, std::span<const std::size_t> send_counts,
                                        void* out, std::span<const std::size_t> receive_counts,
                                        DataType type) {
  among_all().alltoall(in, send_counts, out, receive_counts, type);
}

void HierarchicalCommunicator::barrier() {
  guarded([&] {
    local_->barrier();
    if (topology_.local_rank() == 0) cross_->barrier();
    local_->barrier();
  });
}

// Between the hosts; within one there is no choice.
std::vector<std::string> HierarchicalCommunicator::allreduce_algorithms() const {
  return (cross_ ? cross_ : flat_)->allreduce_algorithms();
}

void HierarchicalCommunicator::set_allreduce_algorithm(const std::string& name) {
  if (cross_) cross_->set_allreduce_algorithm(name);
}

void HierarchicalCommunicator::set_label(std::string_view name, std::uint64_t plan, unsigned turn) {
  local_->set_label(name, plan, turn);
  if (cross_) cross_->set_label(name, plan, turn);
  flat_->set_label(name, plan, turn);
}

}  // namespace sullae
