// When ranks average their weights, if they do that instead of averaging gradients (S. Stich,
// 2019).
#pragma once

#include <cstdint>
#include <string>

namespace sullae::train {

struct LocalSgd {
  std::int64_t steps = 0;  ///< between averages; 0 for none within an epoch
  bool by_epoch = false;
  bool enabled() const { return steps > 0 || by_epoch; }
};

/// "0", a number of steps, or "epoch". Throws InputError.
LocalSgd parse_local_sgd(const std::string& text);

}  // namespace sullae::train
