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

// Where all are laid out as the parameter is.
void update_in_one_pass(torch::Tensor parameter, torch::optim::AdamParamState& state,
                        const torch::Tensor& gradient, const Coefficients& coefficients) {
  AT_DISPATCH_FLOATING_TYPES(parameter.scalar_type(), "sullae::Adam", [&] {
    auto* const values = parameter.data_ptr<scalar_t>();
    auto* const moment = state.exp_avg().data_ptr<scalar_t>();
    auto* const square = state.exp_avg_sq().data_ptr<scalar_t>();
    auto* const largest =
        state.max_exp_avg_sq().defined() ? state.max_exp_avg_sq().data_ptr<scalar_t>() : nullptr;
    const auto* const gradients = gradient.data_ptr<scalar_t>();
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

// The same update as update()'s, of whatever device, type and layout.
void update_tensors(torch::Tensor parameter, torch::Tensor moment, torch::Tensor square,
                    torch::Tensor largest_square, const torch::Tensor& gradient,
                    const Coefficients& c) {
  const torch::Tensor g = c.weight_decay == 0 ? gradient : gradient.add(parameter, c.weight_decay);
  moment.mul_(c.beta1).add_(g, 1 - c.beta1);
  square.mul_(c.beta2).addcmul_(g, g, 1 - c.beta2);
  if (largest_square.defined()) torch::max_out(largest_square, largest_square, square);
  const torch::Tensor& second = largest_square.defined() ? largest_square : square;
  const torch::Tensor root = second.sqrt().mul_(1 / std::sqrt(c.correction2)).add_(c.eps);
  parameter.addcdiv_(moment, root, -c.lr / c.correction1);
}

void update_rows_of_tensors(torch::Tensor parameter, torch::optim::AdamParamState& state,
                            const torch::Tensor& gradient, const Coefficients& coefficients) {
  const torch::Tensor rows = gradient.coalesce();
  const torch::Tensor indices = rows.indices()[0];
  std::vector<torch::Tensor> all = {parameter, state.exp_avg(), state.exp_avg_sq()};
  if (state.max_exp_avg_sq().defined()) all.push_back(state.max_exp_avg_sq());
  std::vector<torch::Tensor> touched;
  for (const torch::Tensor& tensor : all) touched.push_back(tensor.index_select(0, indices));
  update_tensors(touched[0], touched[1], touched[2],
                 touched.size() > 3 ? touched[3] : torch::Tensor(), rows.values(), coefficients);
  for (std::size_t i = 0; i < all.size(); ++i) all[i].index_copy_(0, indices, touched[i]);
}

bool is_plain(const torch::Tensor& parameter) {
  return parameter.device().is_cpu() && parameter.is_non_overlapping_and_dense() &&
         (parameter.scalar_type() == torch::kFloat32 || parameter.scalar_type() == torch::kFloat64);
}

torch::Tensor laid_out_as(const torch::Tensor& parameter, const torch::Tensor& tensor) {
  if (tensor.strides() == parameter.strides()) return tensor;
  return torch::empty_like(parameter).copy_(tensor);
}

// A loaded state, or a gradient, may be laid out otherwise than its parameter.
void update_dense(const torch::Tensor& parameter, torch::optim::AdamParamState& state,
                  const torch::Tensor& gradient, const Coefficients& coefficients) {
  if (!is_plain(parameter)) {
    update_tensors(parameter, state.exp_avg(), state.exp_avg_sq(), state.max_exp_avg_sq(), gradient,
                   coefficients);
    return;
  }
  state.exp_avg(laid_out_as(parameter, state.exp_avg()));
  state.exp_avg_sq(laid_out_as(parameter, state.exp_avg_sq()));
  if (state.max_exp_avg_sq().defined())
    state.max_exp_avg_sq(laid_out_as(parameter, state.max_exp_avg_sq()));
  update_in_one_pass(parameter, state, laid_out_as(parameter, gradient), coefficients);
}

void update_sparse(const torch::Tensor& parameter, torch::optim::AdamParamState& state,
                   const torch::Tensor& gradient, const Coefficients& coefficients) {
  if (is_plain(parameter) && parameter.is_contiguous() && is_row_sparse(gradient)) {
    update_rows(parameter, state, gradient, coefficients);
  } else {
    update_rows_of_tensors(parameter, state, gradient, coefficients);
  }
}

}  // namespace

torch::Tensor Adam::step(LossClosure closure) {
  const torch::NoGradGuard guard;
  const torch::Tensor loss = loss_of(closure);
  for (auto& group : param_groups_) {
    const auto& options = static_cast<const torch::optim::AdamOptions&>(group.options());
    for (auto& parameter : group.params()) {
      if (!parameter.grad().defined()) continue;
      const torch::Tensor& gradient = parameter.grad();
      if (gradient.is_sparse() && (gradient.sparse_dim() != 1 || options.weight_decay() != 0)) {
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
        update_sparse(parameter, state, gradient, coefficients);
      } else {
        update_dense(parameter, state, gradient, coefficients);
      }
    }
  }
  return loss;
}

}  // namespace sullae
