#include "train/end_request.h"

#include <algorithm>

namespace sullae::train {
namespace {

constexpr double kSecondsBetween = 0.25;

}  // namespace

// At calls that ranks agree on, by the time of the slowest.
int EndRequest::on_any_rank(const World& world) {
  if (world.size() == 1) return signals_.signal();
  if (++calls_ < interval_) return 0;
  const auto now = std::chrono::steady_clock::now();
  const std::chrono::duration<double> since = now - last_time_;
  double values[2] = {static_cast<double>(signals_.signal()),
                      since.count() / static_cast<double>(calls_)};
  world.allreduce(values, values, 2, DataType::float64, ReduceOp::max);
  // Growing slowly: the first steps have batches that were read before, and later ones may wait for
  // theirs.
  const auto most = static_cast<double>(std::max<std::int64_t>(2 * interval_, 1));
  interval_ = static_cast<std::int64_t>(std::clamp(kSecondsBetween / values[1], 1.0, most));
  calls_ = 0;
  last_time_ = now;
  return static_cast<int>(values[0]);
}

}  // namespace sullae::train
