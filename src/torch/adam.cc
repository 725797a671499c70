#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>

#include <cmath>

#include "sullae/error.h"
#include "sullae/torch/optimizers.h"
#include "torch/optimizer_state.h"
#include "torch/sparse_rows.h"

namespace sullae {
namespace {

// Elements that a thread takes at a time.
constexpr std::int64_t kGrain = 32768;

struct Coefficients {
  double lr;
  double beta1;
  double beta2;
  double eps;
  double weight_decay;
  double correction1;  // 1 - beta1^step
  double correction2;
};

// One pass over memory: the moments and the parameter are read and written once.
template <class T>
void update(T* parameter, T* moment, T* square, T* largest_square, const T* gradient,
            std::int64_t n, const Coefficients& c) {
  const T beta1 = static_cast<T>(c.beta1);
  const T beta2 = static_cast<T>(c.beta2);
  const T rest1 = static_cast<T>(1 - c.beta1);
  const T rest2 = static_cast<T>(1 - c.beta2);
  const T step_size = static_cast<T>(c.lr / c.correction1);
  const T root_correction = static_cast<T>(1 / std::sqrt(c.correction2));
  const T eps = static_cast<T>(c.eps);
  const T decay = static_cast<T>(c.weight_decay);
  for (std::int64_t i = 0; i < n; ++i) {
    const T g = gradient[i] + decay * parameter[i];
    moment[i] = beta1 * moment[i] + rest1 * g;
    square[i] = beta2 * square[i] + rest2 * g * g;
    T second = square[i];
    if (largest_square != nullptr) {
      largest_square[i] = largest_square[i] < second ? second : largest_square[i];
      second = largest_square[i];
    }
    parameter[i] -= step_size * moment[i] / (std::sqrt(second) * root_correction + eps);
  }
}

void update_dense(torch::Tensor parameter, torch::optim::AdamParamState& state,
                  const torch::Tensor& gradient, const Coefficients& coefficients) {
  const torch::Tensor dense = gradient.contiguous();
  AT_DISPATCH_FLOATING_TYPES(parameter.scalar_type(), "sullae::Adam", [&] {
    auto* const values = parameter.data_ptr<scalar_t>();
    auto* const moment = state.exp_avg().data_ptr<scalar_t>();
    auto* const square = state.exp_avg_sq().data_ptr<scalar_t>();
    auto* const largest =
        state.max_exp_avg_sq().defined() ? state.max_exp_avg_sq().data_ptr<scalar_t>() : nullptr;
    const auto* const gradients = dense.data_ptr<scalar_t>();
    at::parallel_for(0, parameter.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
      update(values + begin, moment + begin, square + begin,
             largest == nullptr ? nullptr : largest + begin, gradients + begin, end - begin,
             coefficients);
    });
  });
}

void update_rows(torch::Tensor parameter, torch::optim::AdamParamState& state,
                 const torch::Tensor& gradient, const Coefficients& coefficients) {
  const SparseRows rows = SparseRows::from(gradient);
  const std::int64_t width = parameter.size(0) == 0 ? 0 : parameter.numel() / parameter.size(0);
  AT_DISPATCH_FLOATING_TYPES(parameter.scalar_type(), "sullae::Adam", [&] {
    const auto* const gradients = rows.values.data_ptr<scalar_t>();
    auto* const values = parameter.data_ptr<scalar_t>();
    auto* const moment = state.exp_avg().data_ptr<scalar_t>();
    auto* const square = state.exp_avg_sq().data_ptr<scalar_t>();
    auto* const largest =
        state.max_exp_avg_sq().defined() ? state.max_exp_avg_sq().data_ptr<scalar_t>() : nullptr;
    for (std::size_t k = 0; k < rows.indices.size(); ++k) {
      const std::int64_t at = rows.indices[k] * width;
      update(values + at, moment + at, square + at, largest == nullptr ? nullptr : largest + at,
             gradients + static_cast<std::int64_t>(k) * width, width, coefficients);
    }
  });
}

bool runs_here(const torch::Tensor& parameter) {
  return parameter.device().is_cpu() && parameter.is_contiguous() &&
         (parameter.scalar_type() == torch::kFloat32 || parameter.scalar_type() == torch::kFloat64);
}

}  // namespace

torch::Tensor Adam::step(LossClosure closure) {
  const torch::NoGradGuard guard;
  torch::Tensor loss;
  if (closure != nullptr) {
    const at::AutoGradMode with_gradients(true);
    loss = closure();
  }
  for (auto& group : param_groups_) {
    const auto& options = static_cast<const torch::optim::AdamOptions&>(group.options());
    for (auto& parameter : group.params()) {
      if (!parameter.grad().defined()) continue;
      const torch::Tensor& gradient = parameter.grad();
      if (!runs_here(parameter)) {
        throw InputError(
            "sullae::Adam updates contiguous float32 and float64 parameters in host memory; use "
            "torch::optim::Adam for "
            "others");
      }
      if (gradient.is_sparse() && (!is_row_sparse(gradient) || options.weight_decay() != 0)) {
        throw InputError(
            "sullae::Adam: a sparse gradient must be sparse in dimension 0 alone, and excludes "
            "weight_decay");
      }
      auto& state = adam_state<torch::optim::AdamParamState>(*this, parameter, options.amsgrad());
      state.step(state.step() + 1);
      const auto [beta1, beta2] = options.betas();
      const Coefficients coefficients{.lr = options.lr(),
                                      .beta1 = beta1,
                                      .beta2 = beta2,
                                      .eps = options.eps(),
                                      .weight_decay = options.weight_decay(),
                                      .correction1 = 1 - std::pow(beta1, state.step()),
                                      .correction2 = 1 - std::pow(beta2, state.step())};
      if (gradient.is_sparse()) {
        update_rows(parameter, state, gradient, coefficients);
      } else {
        update_dense(parameter, state, gradient, coefficients);
      }
    }
  }
  return loss;
}

}  // namespace sullae
