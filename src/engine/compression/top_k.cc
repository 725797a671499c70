#include "engine/compression/top_k.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "base/number.h"
#include "sullae/error.h"

namespace sullae::engine {
namespace {

// S. U. Stich, J.-B. Cordonnier, M. Jaggi: Sparsified SGD with Memory, 2018.
class TopK final : public Compression {
 public:
  explicit TopK(double fraction) : fraction_(fraction) {}

  std::string name() const override { return fmt::format("topk:{}", fraction_); }

  void allreduce(Communicator& ranks, float* values, std::size_t count, ReduceOp op) override {
    if (count == 0) return;
    kept_.resize(count);
    for (std::size_t i = 0; i < count; ++i) kept_[i] += values[i];
    const auto k = std::clamp<std::size_t>(
        static_cast<std::size_t>(std::ceil(fraction_ * static_cast<double>(count))), 1, count);
    choose(k);

    const auto size = static_cast<std::size_t>(ranks.size());
    const std::vector<std::size_t> counts(size, k);
    std::vector<float> chosen(k);
    for (std::size_t i = 0; i < k; ++i) chosen[i] = std::exchange(kept_[order_[i]], 0.0F);
    std::vector<std::int32_t> all_places(size * k);
    std::vector<float> all_values(size * k);
    ranks.allgather(order_.data(), all_places.data(), counts, DataType::int32);
    ranks.allgather(chosen.data(), all_values.data(), counts, DataType::float32);

    const float divisor = op == ReduceOp::average ? static_cast<float>(size) : 1.0F;
    std::fill_n(values, count, 0.0F);
    for (std::size_t i = 0; i < all_places.size(); ++i)
      values[all_places[i]] += all_values[i] / divisor;
  }

 private:
  // The places of the k largest come first.
  void choose(std::size_t k) {
    order_.resize(kept_.size());
    std::iota(order_.begin(), order_.end(), 0);
    std::nth_element(
        order_.begin(), order_.begin() + static_cast<std::ptrdiff_t>(k) - 1, order_.end(),
        [&](std::int32_t a, std::int32_t b) { return size_of(kept_[a]) > size_of(kept_[b]); });
  }

  // What is no number travels first, so that all see it.
  static float size_of(float value) {
    return std::isnan(value) ? std::numeric_limits<float>::infinity() : std::abs(value);
  }

  double fraction_;
  std::vector<float> kept_;  // what has not travelled yet
  std::vector<std::int32_t> order_;
};

}  // namespace

std::unique_ptr<Compression> make_top_k_compression(std::string_view parameter) {
  const auto fraction = number_in<double>(parameter).value_or(0);
  if (!(fraction > 0 && fraction <= 1)) {
    throw InputError(fmt::format(
        "compression 'topk{}': expected topk:FRACTION of values that travel, above 0 and at most 1",
        parameter.empty() ? "" : fmt::format(":{}", parameter)));
  }
  return std::make_unique<TopK>(fraction);
}

}  // namespace sullae::engine
