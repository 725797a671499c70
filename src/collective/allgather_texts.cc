#include "collective/allgather_texts.h"

#include <cstdint>

#include "collective/counts.h"

namespace sullae {

std::vector<std::string> allgather_texts(Communicator& communicator, const std::string& mine) {
  const auto size = static_cast<std::size_t>(communicator.size());
  std::vector<std::int64_t> lengths(size);
  const auto length = static_cast<std::int64_t>(mine.size());
  communicator.allgather(&length, lengths.data(), std::vector<std::size_t>(size, 1),
                         DataType::int64);
  const std::vector<std::size_t> counts(lengths.begin(), lengths.end());
  const auto offsets = offsets_of(counts);
  std::string all(offsets.back(), '\0');
  communicator.allgather(mine.data(), all.data(), counts, DataType::uint8);
  std::vector<std::string> texts;
  for (std::size_t rank = 0; rank < size; ++rank)
    texts.push_back(all.substr(offsets[rank], counts[rank]));
  return texts;
}

}  // namespace sullae
