#include "collective/shm/shm_communicator.h"

#include <algorithm>

#include "base/copy.h"
#include "collective/reduce/reduce.h"
#include "collective/send_buffer.h"
#include "sullae/error.h"

namespace sullae::shm {
namespace {

// Above this, parts of buffers in shared memory are read where they are: nothing is copied in, and
// a second wait costs less.
constexpr std::size_t kInPlaceFromBytes = std::size_t{16} << 10;

std::size_t rounds_for(std::size_t most, std::size_t piece) {
  return std::max<std::size_t>((most + piece - 1) / piece, 1);
}

std::size_t most_of(std::span<const std::size_t> counts) {
  return counts.empty() ? 0 : *std::ranges::max_element(counts);
}

// The elements of round `round` in a part of `count` elements that is moved `piece` elements at a
// time.
Range in_round(std::size_t count, std::size_t piece, std::size_t round) {
  return {std::min(count, round * piece), std::min(count, (round + 1) * piece)};
}

}  // namespace

std::vector<std::byte*> ShmCommunicator::places_of_all(const Signature& signature,
                                                       const void* memory, std::size_t bytes) {
  const SharedPlace own = buffers_->find(memory, bytes);
  group_.exchange(signature, std::as_bytes(std::span(&own, 1)));
  std::vector<std::byte*> places;
  for (int i = 0; i < size(); ++i) {
    SharedPlace place;
    copy_bytes(&place, group_.payload(i), sizeof place);
    if (place.buffer == 0) return {};
    places.push_back(buffers_->resolve(place, i));
  }
  return places;
}

void ShmCommunicator::lockstep(const Signature* signature,
                               const std::function<std::size_t()>& rounds,
                               const std::function<void(std::size_t, std::byte*)>& write,
                               const std::function<void(std::size_t, std::uint64_t)>& read) {
  std::uint64_t announcement = group_.next_announcement();
  write(0, group_.slot(rank(), announcement));
  if (signature != nullptr)
    group_.exchange(*signature);
  else
    group_.step();
  const std::size_t total = rounds();
  read(0, announcement);
  for (std::size_t round = 1; round < total; ++round) {
    announcement = group_.next_announcement();
    write(round, group_.slot(rank(), announcement));
    group_.step();
    read(round, announcement);
  }
}

void ShmCommunicator::reducescatter(const void* in, void* out, std::span<const std::size_t> counts,
                                    DataType type, ReduceOp op) {
  reduction::check_elementwise(type, op);
  const std::size_t width = element_size(type);
  const auto offsets = offsets_of(counts);
  const std::size_t mine = counts[static_cast<std::size_t>(rank())];
  const std::size_t piece = kSlotBytes / static_cast<std::size_t>(size()) / 64 * 64 / width;
  const auto* from = static_cast<const std::byte*>(in);
  const Signature signature{
      .operation = Operation::reducescatter, .type = type, .op = op, .count = hash_of(counts)};
  std::vector<const void*> inputs(static_cast<std::size_t>(size()));
  const std::size_t bytes = offsets.back() * width;
  const bool large = bytes > kInPlaceFromBytes;
  if (large) {
    const auto places = places_of_all(signature, in, bytes);
    if (!places.empty()) {
      const std::size_t begin = offsets[static_cast<std::size_t>(rank())] * width;
      for (std::size_t i = 0; i < places.size(); ++i) inputs[i] = places[i] + begin;
      reduction::run({inputs.data(), inputs.size(), &out, 1, mine, op, size()}, type);
      group_.step();
      return;
    }
  }
  lockstep(
      large ? nullptr : &signature, [&] { return rounds_for(most_of(counts), piece); },
      [&](std::size_t round, std::byte* slot) {
        for (std::size_t i = 0; i < counts.size(); ++i) {
          const Range range = in_round(counts[i], piece, round);
          copy_bytes(slot + i * piece * width, from + (offsets[i] + range.begin) * width,
                     range.size() * width);
        }
      },
      [&](std::size_t round, std::uint64_t announcement) {
        const Range range = in_round(mine, piece, round);
        for (int i = 0; i < size(); ++i) {
          inputs[static_cast<std::size_t>(i)] =
              group_.slot(i, announcement) + static_cast<std::size_t>(rank()) * piece * width;
        }
        void* const output = static_cast<std::byte*>(out) + range.begin * width;
        reduction::run({inputs.data(), inputs.size(), &output, 1, range.size(), op, size()}, type);
      });
}

void ShmCommunicator::allgather(const void* in, void* out, std::span<const std::size_t> counts,
                                DataType type) {
  const std::size_t width = element_size(type);
  const auto offsets = offsets_of(counts);
  const auto me = static_cast<std::size_t>(rank());
  const std::size_t piece = kSlotBytes / width;
  auto* into = static_cast<std::byte*>(out);
  std::byte* own = into + offsets[me] * width;
  if (in != own) copy_bytes(own, in, counts[me] * width);
  const Signature signature{
      .operation = Operation::allgather, .type = type, .count = hash_of(counts)};
  const std::size_t bytes = offsets.back() * width;
  const bool large = bytes > kInPlaceFromBytes;
  if (large) {
    const auto places = places_of_all(signature, out, bytes);
    if (!places.empty()) {
      for (std::size_t i = 0; i < places.size(); ++i) {
        const std::size_t begin = offsets[i] * width;
        if (i != me) copy_bytes(into + begin, places[i] + begin, counts[i] * width);
      }
      group_.step();
      return;
    }
  }
  lockstep(
      large ? nullptr : &signature, [&] { return rounds_for(most_of(counts), piece); },
      [&](std::size_t round, std::byte* slot) {
        const Range range = in_round(counts[me], piece, round);
        copy_bytes(slot, own + range.begin * width, range.size() * width);
      },
      [&](std::size_t round, std::uint64_t announcement) {
        for (std::size_t i = 0; i < counts.size(); ++i) {
          const Range range = in_round(counts[i], piece, round);
          if (i == me) continue;
          copy_bytes(into + (offsets[i] + range.begin) * width,
                     group_.slot(static_cast<int>(i), announcement), range.size() * width);
        }
      });
}

void ShmCommunicator::broadcast(void* data, std::size_t count, DataType type, int root) {
  const std::size_t width = element_size(type);
  const std::size_t piece = kSlotBytes / width;
  auto* bytes = static_cast<std::byte*>(data);
  const Signature signature{
      .operation = Operation::broadcast, .type = type, .root = root, .count = count};
  lockstep(
      &signature, [&] { return rounds_for(count, piece); },
      [&](std::size_t round, std::byte* slot) {
        const Range range = in_round(count, piece, round);
        if (rank() == root) {
          copy_bytes(slot, bytes + range.begin * width, range.size() * width);
        }
      },
      [&](std::size_t round, std::uint64_t announcement) {
        const Range range = in_round(count, piece, round);
        if (rank() != root) {
          copy_bytes(bytes + range.begin * width, group_.slot(root, announcement),
                     range.size() * width);
        }
      });
}

// A slot starts with the rank's send and receive counts, so that everybody can check everybody's,
// and that all agree on the number of rounds; then come equal pieces, one for each receiver.
void ShmCommunicator::alltoall(const void* in, std::span<const std::size_t> send_counts, void* out,
                               std::span<const std::size_t> receive_counts, DataType type) {
  const std::size_t width = element_size(type);
  const auto ranks = static_cast<std::size_t>(size());
  const auto me = static_cast<std::size_t>(rank());
  const auto send_offsets = offsets_of(send_counts);
  const auto receive_offsets = offsets_of(receive_counts);
  const std::size_t header = 2 * ranks * sizeof(std::size_t);
  const std::size_t piece_bytes = (kSlotBytes - header) / ranks / 64 * 64;
  const std::size_t piece = piece_bytes / width;
  const SendBuffer kept(in, out, send_offsets.back() * width);
  const std::byte* const from = kept.data();
  auto* into = static_cast<std::byte*>(out);
  std::uint64_t first_announcement = 0;

  const auto announced = [&](std::size_t sender, std::size_t index) {
    std::size_t count = 0;
    copy_bytes(&count,
               group_.slot(static_cast<int>(sender), first_announcement) + index * sizeof count,
               sizeof count);
    return count;
  };
  const auto check_counts = [&] {
    std::size_t most = 0;
    for (std::size_t sender = 0; sender < ranks; ++sender) {
      for (std::size_t receiver = 0; receiver < ranks; ++receiver) {
        const std::size_t sends = announced(sender, receiver);
        const std::size_t receives = announced(receiver, ranks + sender);
        if (sends != receives) {
          throw MismatchError("alltoall: rank " +
                              std::to_string(group_.world_rank(static_cast<int>(sender))) +
                              " sends " + std::to_string(sends) + " elements to rank " +
                              std::to_string(group_.world_rank(static_cast<int>(receiver))) +
                              ", which expects " + std::to_string(receives));
        }
        most = std::max(most, sends);
      }
    }
    return rounds_for(most, piece);
  };
  first_announcement = group_.next_announcement();
  const Signature signature{.operation = Operation::alltoall, .type = type};
  lockstep(
      &signature, check_counts,
      [&](std::size_t round, std::byte* slot) {
        copy_bytes(slot, send_counts.data(), ranks * sizeof(std::size_t));
        copy_bytes(slot + header / 2, receive_counts.data(), ranks * sizeof(std::size_t));
        for (std::size_t i = 0; i < ranks; ++i) {
          const Range range = in_round(send_counts[i], piece, round);
          copy_bytes(slot + header + i * piece_bytes,
                     from + (send_offsets[i] + range.begin) * width, range.size() * width);
        }
      },
      [&](std::size_t round, std::uint64_t announcement) {
        for (std::size_t i = 0; i < ranks; ++i) {
          const Range range = in_round(receive_counts[i], piece, round);
          copy_bytes(into + (receive_offsets[i] + range.begin) * width,
                     group_.slot(static_cast<int>(i), announcement) + header + me * piece_bytes,
                     range.size() * width);
        }
      });
}

}  // namespace sullae::shm
