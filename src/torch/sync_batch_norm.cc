#include <fmt/format.h>
#include <torch/torch.h>

#include "sullae/torch.h"
#include "torch/held.h"

namespace sullae {
namespace {

// A value a channel, shaped to meet [batch, channels, …].
torch::Tensor by_channel(const torch::Tensor& values, const torch::Tensor& like) {
  std::vector<std::int64_t> shape(static_cast<std::size_t>(like.dim()), 1);
  shape[1] = values.numel();
  return values.view(shape);
}

std::vector<std::int64_t> all_but_channels(const torch::Tensor& input) {
  std::vector<std::int64_t> dimensions;
  for (std::int64_t d = 0; d < input.dim(); ++d) {
    if (d != 1) dimensions.push_back(d);
  }
  return dimensions;
}

// Sums are kept in float64: the variance is a small difference of them.
torch::Tensor sum_by_channel(const torch::Tensor& values) {
  return values.sum(all_but_channels(values), /*keepdim=*/false, torch::kFloat64);
}

struct Statistics {
  torch::Tensor mean;      // [channels] float64, over all ranks
  torch::Tensor variance;  // biased
  double count = 0;
};

Statistics statistics_of(const torch::Tensor& input, const World& world) {
  const std::int64_t channels = input.size(1);
  if (channels == 0) throw InputError("sync_batch_norm: the input has no channels");
  // Squares of what 16 bits hold may be more than they hold.
  const torch::Tensor wide = input.element_size() < 4 ? input.to(torch::kFloat32) : input;
  const double own_count = static_cast<double>(input.numel() / channels);
  const auto count = torch::full({1}, own_count, input.options().dtype(torch::kFloat64));
  const auto sum = sum_by_channel(input);
  // Of what is left beside this rank's mean: squares of large means would hide it.
  const auto shift = (sum / std::max(own_count, 1.0)).to(wide.scalar_type());
  const auto squares = sum_by_channel((wide - by_channel(shift, wide)).square());
  const auto shifted = shift.to(torch::kFloat64);
  auto sums = torch::cat({sum, squares + shifted * (2 * sum - own_count * shifted), count});
  allreduce(sums, ReduceOp::sum, world);
  Statistics statistics;
  statistics.count = sums[2 * channels].item<double>();
  statistics.mean = sums.narrow(0, 0, channels) / statistics.count;
  statistics.variance =
      (sums.narrow(0, channels, channels) / statistics.count - statistics.mean.square())
          .clamp_min(0);
  return statistics;
}

struct Normalise : torch::autograd::Function<Normalise> {
  static torch::Tensor forward(torch::autograd::AutogradContext* context,
                               const torch::Tensor& input, const torch::Tensor& weight,
                               const torch::Tensor& bias, const torch::Tensor& mean,
                               const torch::Tensor& inverse_deviation, double count,
                               const World& world) {
    const auto type = inverse_deviation.scalar_type();
    const auto normalised =
        (input.to(type) - by_channel(mean, input)) * by_channel(inverse_deviation, input);
    context->save_for_backward({normalised, weight, inverse_deviation});
    context->saved_data["count"] = count;
    hold(*context, world);
    context->saved_data["type"] = static_cast<std::int64_t>(input.scalar_type());
    return (normalised * by_channel(weight, input) + by_channel(bias, input))
        .to(input.scalar_type());
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list outputs) {
    const auto saved = context->get_saved_variables();
    const torch::Tensor& normalised = saved[0];
    const torch::Tensor& weight = saved[1];
    const torch::Tensor& inverse_deviation = saved[2];
    const auto world = held<World>(*context);
    const double count = context->saved_data["count"].toDouble();
    const auto gradient = outputs[0].to(normalised.scalar_type());
    const std::int64_t channels = gradient.size(1);

    const auto bias_gradient = sum_by_channel(gradient);
    const auto weight_gradient = sum_by_channel(gradient * normalised);
    auto sums = torch::cat({bias_gradient, weight_gradient});
    allreduce(sums, ReduceOp::sum, world);
    const auto means = (sums / count).to(gradient.scalar_type());
    const auto input_gradient =
        by_channel(inverse_deviation * weight, gradient) *
        (gradient - by_channel(means.narrow(0, 0, channels), gradient) -
         normalised * by_channel(means.narrow(0, channels, channels), gradient));
    const auto type = static_cast<torch::ScalarType>(context->saved_data["type"].toInt());
    return {input_gradient.to(type),
            weight_gradient.to(weight.scalar_type()),
            bias_gradient.to(weight.scalar_type()),
            {},
            {},
            {},
            {}};
  }
};

// What a batch more weighs in the running values.
double count_batch(auto& norm) {
  norm.num_batches_tracked += 1;
  const auto momentum = norm.options.momentum();
  if (momentum.has_value()) return *momentum;
  return 1.0 / static_cast<double>(norm.num_batches_tracked.template item<std::int64_t>());
}

// As BatchNorm2d.
torch::Tensor normalise_here(const torch::Tensor& input, auto& norm) {
  const bool tracks = norm.options.track_running_stats();
  const double factor = norm.is_training() && tracks ? count_batch(norm) : 0;
  return torch::nn::functional::detail::batch_norm(
      input, norm.running_mean, norm.running_var, norm.weight, norm.bias,
      norm.is_training() || !tracks, factor, norm.options.eps());
}

void update_running(auto& norm, const Statistics& statistics) {
  if (!norm.options.track_running_stats()) return;
  const torch::NoGradGuard guard;
  const double factor = count_batch(norm);
  const double unbiased = statistics.count > 1 ? statistics.count / (statistics.count - 1) : 1;
  const auto blend = [&](torch::Tensor& running, const torch::Tensor& now) {
    running.mul_(1 - factor).add_(now.to(running.scalar_type()), factor);
  };
  blend(norm.running_mean, statistics.mean);
  blend(norm.running_var, statistics.variance * unbiased);
}

torch::Tensor normalise(const torch::Tensor& input, auto& norm, const World& world) {
  if (input.dim() < 2 || input.size(1) != norm.options.num_features()) {
    throw InputError(
        fmt::format("sync_batch_norm: the input has shape [{}], expected [batch, {}, …]",
                    fmt::join(input.sizes(), ", "), norm.options.num_features()));
  }
  if (!norm.is_training() || world.size() == 1) return normalise_here(input, norm);
  const Statistics statistics = [&] {
    const torch::NoGradGuard guard;
    return statistics_of(input, world);
  }();
  update_running(norm, statistics);
  const auto type = input.scalar_type() == torch::kFloat64 ? torch::kFloat64 : torch::kFloat32;
  const auto inverse_deviation = (statistics.variance + norm.options.eps()).rsqrt().to(type);
  const bool affine = norm.weight.defined();
  const auto weight = affine ? norm.weight : torch::ones_like(inverse_deviation);
  const auto bias = affine ? norm.bias : torch::zeros_like(inverse_deviation);
  return Normalise::apply(input, weight, bias, statistics.mean.to(type), inverse_deviation,
                          statistics.count, world);
}

}  // namespace

torch::Tensor sync_batch_norm(const torch::Tensor& input, torch::nn::BatchNorm2dImpl& norm,
                              const World& world) {
  return normalise(input, norm, world);
}

torch::Tensor sync_batch_norm(const torch::Tensor& input, SyncBatchNorm2dImpl& norm,
                              const World& world) {
  return normalise(input, norm, world);
}

torch::Tensor SyncBatchNorm2dImpl::forward(const torch::Tensor& input) {
  _check_input_dim(input);
  return sync_batch_norm(input, *this);
}

// As libtorch prints a BatchNorm2d.
void SyncBatchNorm2dImpl::pretty_print(std::ostream& stream) const {
  stream << "sullae::SyncBatchNorm2d(" << options.num_features() << ", eps=" << options.eps()
         << ", momentum=" << options.momentum().value_or(0) << ", affine=" << options.affine()
         << ", track_running_stats=" << options.track_running_stats() << ')';
}

void SyncBatchNorm2dImpl::_check_input_dim(const torch::Tensor& input) {
  if (input.dim() != 4)
    throw InputError(fmt::format("SyncBatchNorm2d: the input has shape [{}], expected 4 dimensions",
                                 fmt::join(input.sizes(), ", ")));
}

}  // namespace sullae
