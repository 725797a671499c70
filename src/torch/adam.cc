#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <cmath>
#include <map>
#include <string>

#include "sullae/error.h"
#include "sullae/torch/optimizers.h"
#include "torch/compat/fused_adam.h"
#include "torch/optimizer_state.h"
#include "torch/sparse_rows.h"

namespace sullae {
namespace {

// Elements that a thread takes at a time.
constexpr std::int64_t kGrain = 32768;

// How a step of one parameter goes.
struct Coefficients {
  double lr;
  double beta1;
  double beta2;
  double eps;
  double gradient_decay;  // of the weight, in the gradient: Adam's
  double weight_decay;    // of the weight itself: AdamW's
  double correction1;     // 1 - beta1^step
  double correction2;
};

// What is kept of a parameter, laid out as it is.
struct Moments {
  torch::Tensor first;
  torch::Tensor second;
  torch::Tensor largest_second;  // with amsgrad
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
  const T decay = static_cast<T>(c.gradient_decay);
  const T kept = static_cast<T>(1 - c.lr * c.weight_decay);
  for (std::int64_t i = 0; i < n; ++i) {
    const T g = gradient[i] + decay * parameter[i];
    moment[i] = beta1 * moment[i] + rest1 * g;
    square[i] = beta2 * square[i] + rest2 * g * g;
    T second = square[i];
    if (largest_square != nullptr) {
      largest_square[i] = largest_square[i] < second ? second : largest_square[i];
      second = largest_square[i];
    }
    parameter[i] =
        kept * parameter[i] - step_size * moment[i] / (std::sqrt(second) * root_correction + eps);
  }
}

template <class T>
T* data_of(const torch::Tensor& tensor) {
  return tensor.defined() ? tensor.data_ptr<T>() : nullptr;
}

void update_in_one_pass(const torch::Tensor& parameter, const Moments& moments,
                        const torch::Tensor& gradient, const Coefficients& coefficients) {
  AT_DISPATCH_FLOATING_TYPES(parameter.scalar_type(), "sullae::Adam", [&] {
    auto* const values = data_of<scalar_t>(parameter);
    auto* const moment = data_of<scalar_t>(moments.first);
    auto* const square = data_of<scalar_t>(moments.second);
    auto* const largest = data_of<scalar_t>(moments.largest_second);
    const auto* const gradients = data_of<scalar_t>(gradient);
    at::parallel_for(0, parameter.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
      update(values + begin, moment + begin, square + begin,
             largest == nullptr ? nullptr : largest + begin, gradients + begin, end - begin,
             coefficients);
    });
  });
}

void update_rows(const torch::Tensor& parameter, const Moments& moments,
                 const torch::Tensor& gradient, const Coefficients& coefficients) {
  const SparseRows rows = SparseRows::from(gradient);
  const std::int64_t width = parameter.size(0) == 0 ? 0 : parameter.numel() / parameter.size(0);
  AT_DISPATCH_FLOATING_TYPES(parameter.scalar_type(), "sullae::Adam", [&] {
    const auto* const gradients = data_of<scalar_t>(rows.values);
    auto* const values = data_of<scalar_t>(parameter);
    auto* const moment = data_of<scalar_t>(moments.first);
    auto* const square = data_of<scalar_t>(moments.second);
    auto* const largest = data_of<scalar_t>(moments.largest_second);
    for (std::size_t k = 0; k < rows.indices.size(); ++k) {
      const std::int64_t at = rows.indices[k] * width;
      update(values + at, moment + at, square + at, largest == nullptr ? nullptr : largest + at,
             gradients + static_cast<std::int64_t>(k) * width, width, coefficients);
    }
  });
}

// The same update as update()'s, of whatever device, type and layout.
void update_tensors(torch::Tensor parameter, Moments moments, const torch::Tensor& gradient,
                    const Coefficients& c) {
  const torch::Tensor g =
      c.gradient_decay == 0 ? gradient : gradient.add(parameter, c.gradient_decay);
  if (c.weight_decay != 0) parameter.mul_(1 - c.lr * c.weight_decay);
  moments.first.mul_(c.beta1).add_(g, 1 - c.beta1);
  moments.second.mul_(c.beta2).addcmul_(g, g, 1 - c.beta2);
  torch::Tensor& largest = moments.largest_second;
  if (largest.defined()) torch::max_out(largest, largest, moments.second);
  const torch::Tensor& second = largest.defined() ? largest : moments.second;
  const torch::Tensor root = second.sqrt().mul_(1 / std::sqrt(c.correction2)).add_(c.eps);
  parameter.addcdiv_(moments.first, root, -c.lr / c.correction1);
}

void update_rows_of_tensors(torch::Tensor parameter, const Moments& moments,
                            const torch::Tensor& gradient, const Coefficients& coefficients) {
  const torch::Tensor rows = gradient.coalesce();
  const torch::Tensor indices = rows.indices()[0];
  const auto touched = [&](const torch::Tensor& tensor) {
    return tensor.defined() ? tensor.index_select(0, indices) : tensor;
  };
  const auto put_back = [&](torch::Tensor tensor, const torch::Tensor& part) {
    if (tensor.defined()) tensor.index_copy_(0, indices, part);
  };
  const torch::Tensor part = touched(parameter);
  const Moments own{touched(moments.first), touched(moments.second),
                    touched(moments.largest_second)};
  update_tensors(part, own, rows.values(), coefficients);
  put_back(parameter, part);
  put_back(moments.first, own.first);
  put_back(moments.second, own.second);
  put_back(moments.largest_second, own.largest_second);
}

bool has_kernel(const torch::Tensor& parameter) {
  return parameter.device().is_cpu() && parameter.is_non_overlapping_and_dense() &&
         (parameter.scalar_type() == torch::kFloat32 || parameter.scalar_type() == torch::kFloat64);
}

bool is_fused(const torch::Tensor& parameter, const Moments& moments) {
  const auto fits = [&](const torch::Tensor& moment) {
    return !moment.defined() || (moment.device() == parameter.device() &&
                                 moment.scalar_type() == parameter.scalar_type());
  };
  return kHasFusedAdam && parameter.is_cuda() && parameter.is_non_overlapping_and_dense() &&
         parameter.numel() > 0 && fits(moments.first) && fits(moments.second) &&
         fits(moments.largest_second);
}

torch::Tensor laid_out_as(const torch::Tensor& parameter, const torch::Tensor& tensor) {
  if (!tensor.defined() || tensor.strides() == parameter.strides() ||
      !parameter.is_non_overlapping_and_dense())
    return tensor;
  return torch::empty_like(parameter).copy_(tensor);
}

// A loaded state may be laid out otherwise than its parameter.
template <class State>
Moments moments_of(const torch::Tensor& parameter, State& state) {
  state.exp_avg(laid_out_as(parameter, state.exp_avg()));
  state.exp_avg_sq(laid_out_as(parameter, state.exp_avg_sq()));
  if (state.max_exp_avg_sq().defined())
    state.max_exp_avg_sq(laid_out_as(parameter, state.max_exp_avg_sq()));
  return {state.exp_avg(), state.exp_avg_sq(), state.max_exp_avg_sq()};
}

void update_one(const torch::Tensor& parameter, const Moments& moments,
                const torch::Tensor& gradient, const Coefficients& coefficients) {
  if (gradient.is_sparse()) {
    if (has_kernel(parameter) && parameter.is_contiguous() && is_row_sparse(gradient))
      update_rows(parameter, moments, gradient, coefficients);
    else
      update_rows_of_tensors(parameter, moments, gradient, coefficients);
  } else if (has_kernel(parameter)) {
    update_in_one_pass(parameter, moments, laid_out_as(parameter, gradient), coefficients);
  } else {
    update_tensors(parameter, moments, gradient, coefficients);
  }
}

// A group's parameters on GPUs: those of one type, with or without amsgrad, together.
class Together {
 public:
  void add(const torch::Tensor& parameter, const Moments& moments, const torch::Tensor& gradient,
           std::int64_t step) {
    auto& [all, last_step] =
        all_[parameter.device().str() + c10::toString(parameter.scalar_type()) +
             (moments.largest_second.defined() ? " amsgrad" : "")];
    // Nearly always the same as the last one's.
    const bool is_another = all.steps.empty() || step != last_step;
    last_step = step;
    all.steps.push_back(is_another ? torch::full({}, static_cast<double>(step),
                                                 parameter.options().dtype(torch::kFloat32))
                                   : torch::Tensor(all.steps.back()));
    all.parameters.push_back(parameter);
    all.gradients.push_back(laid_out_as(parameter, gradient.to(parameter.scalar_type())));
    all.moments.push_back(moments.first);
    all.squares.push_back(moments.second);
    if (moments.largest_second.defined()) all.largest_squares.push_back(moments.largest_second);
  }
  template <class Options>
  void update(bool decoupled, const Options& options) const {
    const auto [beta1, beta2] = options.betas();
    for (const auto& [key, group] : all_)
      update_fused(group.all, decoupled, options.lr(), beta1, beta2, options.weight_decay(),
                   options.eps());
  }

 private:
  struct Group {
    FusedAdam all;
    std::int64_t last_step = 0;
  };
  std::map<std::string, Group> all_;
};

// Before any has made a step.
template <class Options>
void check_sparse(torch::optim::Optimizer& optimizer, const char* who) {
  for (const auto& group : optimizer.param_groups()) {
    const auto& options = static_cast<const Options&>(group.options());
    for (const torch::Tensor& parameter : group.params()) {
      const torch::Tensor& gradient = parameter.grad();
      if (!gradient.defined() || !gradient.is_sparse()) continue;
      if (gradient.sparse_dim() != 1 || options.weight_decay() != 0)
        throw InputError(fmt::format(
            "sullae::{}: a sparse gradient must be sparse in dimension 0 alone, and excludes "
            "weight_decay",
            who));
    }
  }
}

// Of Adam, or of AdamW, which is `decoupled`.
template <class State, class Options>
void step_all(torch::optim::Optimizer& optimizer, bool decoupled) {
  check_sparse<Options>(optimizer, decoupled ? "AdamW" : "Adam");
  for (auto& group : optimizer.param_groups()) {
    const auto& options = static_cast<const Options&>(group.options());
    const auto [beta1, beta2] = options.betas();
    Together together;
    for (auto& parameter : group.params()) {
      if (!parameter.grad().defined()) continue;
      const torch::Tensor& gradient = parameter.grad();
      auto& state = adam_state<State>(optimizer, parameter, options.amsgrad());
      state.step(state.step() + 1);
      const Moments moments = moments_of(parameter, state);
      if (is_fused(parameter, moments) && !gradient.is_sparse()) {
        together.add(parameter, moments, gradient, state.step());
        continue;
      }
      update_one(parameter, moments, gradient,
                 {.lr = options.lr(),
                  .beta1 = beta1,
                  .beta2 = beta2,
                  .eps = options.eps(),
                  .gradient_decay = decoupled ? 0 : options.weight_decay(),
                  .weight_decay = decoupled ? options.weight_decay() : 0,
                  .correction1 = 1 - std::pow(beta1, state.step()),
                  .correction2 = 1 - std::pow(beta2, state.step())});
    }
    together.update(decoupled, options);
  }
}

}  // namespace

torch::Tensor Adam::step(LossClosure closure) {
  const torch::NoGradGuard guard;
  const torch::Tensor loss = loss_of(closure);
  step_all<torch::optim::AdamParamState, torch::optim::AdamOptions>(*this, /*decoupled=*/false);
  return loss;
}

torch::Tensor AdamW::step(LossClosure closure) {
  const torch::NoGradGuard guard;
  const torch::Tensor loss = loss_of(closure);
  step_all<torch::optim::AdamWParamState, torch::optim::AdamWOptions>(*this, /*decoupled=*/true);
  return loss;
}

}  // namespace sullae
