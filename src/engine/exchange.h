// Tells every rank what every other has to say in one cycle.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "sullae/communicator.h"

namespace sullae::engine {

/// Used by one thread at a time.
class CycleExchange {
 public:
  explicit CycleExchange(Communicator& communicator);

  /// By rank. One small allgather, and a second one when somebody has much to say. Collective.
  const std::vector<std::string>& run(std::string_view mine);

 private:
  /// What fits into the first allgather, with the length in front.
  static constexpr std::size_t kBlock = 256;

  Communicator& communicator_;
  std::vector<std::size_t> block_counts_;
  std::vector<std::byte> blocks_;
  std::vector<std::string> said_;
};

}  // namespace sullae::engine
