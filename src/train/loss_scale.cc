#include "train/loss_scale.h"

#include <fmt/format.h>

#include <cmath>

#include "base/number.h"
#include "sullae/error.h"

namespace sullae::train {

std::optional<torch::ScalarType> low_precision(const TrainOptions& options) {
  if (options.precision == "bfloat16") return torch::kBFloat16;
  if (options.precision == "float16") return torch::kFloat16;
  return std::nullopt;
}

LossScalerOptions parse_loss_scale(const TrainOptions& options) {
  if (options.loss_scale == "dynamic") {
    // Gradients in bfloat16 reach as far as those in float32.
    if (options.precision != "float16") return {.scale = 1, .dynamic = false};
    return {};
  }
  const std::string& text = options.loss_scale;
  if (options.precision == "float32")
    throw InputError(fmt::format("--loss-scale {}: needs --precision bfloat16 or float16", text));
  const auto scale = number_in<double>(text).value_or(0);
  if (!(scale > 0) || !std::isfinite(scale)) {
    throw InputError(fmt::format("--loss-scale {}: expected dynamic, or a number above 0", text));
  }
  return {.scale = scale, .dynamic = false};
}

}  // namespace sullae::train
