#include "online/judgement.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace sullae::online {
namespace {

// Accuracy on what the round was not done for.
double elsewhere(const train::FineTuneResult& result, train::Accuracy train::Measured::*when) {
  const auto correct = [&](const train::Measured& measured) {
    return (measured.*when).accuracy * (measured.*when).counted;
  };
  const double counted = (result.test.*when).counted + (result.earlier.*when).counted;
  return counted == 0 ? 1 : (correct(result.test) + correct(result.earlier)) / counted;
}

}  // namespace

std::string reason_against(const train::FineTuneResult& result, const OnlineConfig& config) {
  const auto& [before, after, samples] = result.changed;
  if (!std::isfinite(after.loss))
    return fmt::format(
        "the loss on the changed samples is {} after training: learning_rate {} may be too large",
        after.loss, config.training.lr);
  const bool better = after.accuracy > before.accuracy ||
                      (after.accuracy == before.accuracy && after.loss < before.loss);
  if (!better)
    return fmt::format("not better on the changed samples: {:.2f} % before, {:.2f} % after",
                       percent(before.accuracy), percent(after.accuracy));
  // Of a few a single one is more than the tolerance.
  const auto& [taught_before, taught_after, taught] = result.earlier;
  const double taught_loss = percent(taught_before.accuracy) - percent(taught_after.accuracy);
  if (taught > 0 && taught_loss > std::max(config.tolerance, 1.01 * percent(1) / taught))
    return fmt::format(
        "worse on samples of earlier rounds: {:.2f} % before, {:.2f} % after, more than the "
        "tolerance of {} (percentage points), and than one of {}",
        percent(taught_before.accuracy), percent(taught_after.accuracy), config.tolerance, taught);
  const double old_before = percent(elsewhere(result, &train::Measured::before));
  const double old_after = percent(elsewhere(result, &train::Measured::after));
  if (old_before - old_after > config.tolerance)
    return fmt::format(
        "worse elsewhere: {:.2f} % before, {:.2f} % after, more than the tolerance of {} "
        "(percentage points)",
        old_before, old_after, config.tolerance);
  return {};
}

}  // namespace sullae::online
