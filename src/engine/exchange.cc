#include "engine/exchange.h"

#include <algorithm>
#include <cstdint>

#include "base/copy.h"
#include "collective/counts.h"

namespace sullae::engine {
namespace {

using Length = std::uint64_t;

}  // namespace

CycleExchange::CycleExchange(Communicator& communicator)
    : communicator_(communicator),
      block_counts_(static_cast<std::size_t>(communicator.size()), kBlock),
      blocks_(block_counts_.size() * kBlock),
      said_(block_counts_.size()) {}

const std::vector<std::string>& CycleExchange::run(std::string_view mine) {
  constexpr std::size_t kRoom = kBlock - sizeof(Length);
  std::byte* const own = blocks_.data() + static_cast<std::size_t>(communicator_.rank()) * kBlock;
  const Length length = mine.size();
  copy_bytes(own, &length, sizeof length);
  copy_bytes(own + sizeof length, mine.data(), std::min(mine.size(), kRoom));
  communicator_.allgather(own, blocks_.data(), block_counts_, DataType::uint8);

  std::vector<std::size_t> rests;
  for (std::size_t rank = 0; rank < said_.size(); ++rank) {
    const std::byte* const block = blocks_.data() + rank * kBlock;
    Length said = 0;
    copy_bytes(&said, block, sizeof said);
    const std::size_t here = std::min<std::size_t>(said, kRoom);
    said_[rank].assign(reinterpret_cast<const char*>(block + sizeof said), here);
    rests.push_back(said - here);
  }
  if (std::ranges::all_of(rests, [](std::size_t rest) { return rest == 0; })) return said_;

  const auto offsets = offsets_of(rests);
  std::string overflow(offsets.back(), '\0');
  communicator_.allgather(mine.substr(std::min(mine.size(), kRoom)).data(), overflow.data(), rests,
                          DataType::uint8);
  for (std::size_t rank = 0; rank < said_.size(); ++rank)
    said_[rank].append(overflow, offsets[rank], rests[rank]);
  return said_;
}

}  // namespace sullae::engine
