#include "train/local_sgd.h"

#include "base/environment.h"

namespace sullae::train {

LocalSgd parse_local_sgd(const std::string& text) {
  if (text == "epoch") return {.by_epoch = true};
  constexpr long long kMost = 1LL << 40;
  return {.steps = parse_integer(text, "--local-sgd", 0, kMost)};
}

}  // namespace sullae::train
