#include "sullae/torch/precision.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <set>
#include <unordered_map>

#include "sullae/torch/parallel.h"
#include "torch/trained_parameters.h"

namespace sullae {
namespace {

// The parameters of norms and embeddings stay float32.
void collect_kept(const torch::nn::Module& module, std::set<const void*>& kept) {
  const bool keep = module.as<torch::nn::BatchNorm1d>() != nullptr ||
                    module.as<torch::nn::BatchNorm2d>() != nullptr ||
                    module.as<torch::nn::BatchNorm3d>() != nullptr ||
                    module.as<SyncBatchNorm2d>() != nullptr ||
                    module.as<torch::nn::LayerNorm>() != nullptr ||
                    module.as<torch::nn::GroupNorm>() != nullptr ||
                    module.as<torch::nn::Embedding>() != nullptr ||
                    module.as<torch::nn::EmbeddingBag>() != nullptr ||
                    dynamic_cast<const StaysInFloat32*>(&module) != nullptr;
  for (const auto& parameter : module.parameters(/*recurse=*/false)) {
    if (keep) kept.insert(parameter.unsafeGetTensorImpl());
  }
  for (const auto& child : module.children()) collect_kept(*child, kept);
}

// Cheaper than looking at each value: a sum with an infinity or a NaN in it is one.
torch::Tensor sum_of(const torch::Tensor& gradient) {
  return (gradient.is_sparse() ? gradient._values() : gradient).sum(torch::kFloat64);
}

void check_type(const torch::nn::Module& module, torch::ScalarType type) {
  if (type != torch::kBFloat16 && type != torch::kFloat16)
    throw InputError("MixedPrecision: expected bfloat16 or float16");
  const auto parameters = module.parameters();
  const bool on_cpu = std::ranges::any_of(
      parameters, [](const torch::Tensor& parameter) { return parameter.is_cpu(); });
  if (type == torch::kFloat16 && on_cpu)
    throw InputError(
        "MixedPrecision: libtorch does not compute in float16 on the CPU: take bfloat16");
}

bool is_cast(const torch::Tensor& parameter, const std::set<const void*>& kept) {
  return parameter.is_floating_point() && !kept.contains(parameter.unsafeGetTensorImpl());
}

}  // namespace

LossScaler::LossScaler(LossScalerOptions options) : options_(options), scale_(options.scale) {
  if (!(options.scale > 0) || options.growth_interval < 1)
    throw InputError("LossScaler: expected a scale above 0 and a growth interval of at least 1");
}

void LossScaler::update(bool finite) {
  if (!finite) ++skipped_;
  if (!options_.dynamic) return;
  constexpr double kLeast = 1.0 / 65536;
  constexpr double kMost = 1ULL << 40;
  if (!finite) {
    scale_ = std::max(scale_ / 2, std::min(scale_, kLeast));
    good_steps_ = 0;
  } else if (++good_steps_ >= options_.growth_interval) {
    scale_ = std::min(scale_ * 2, kMost);
    good_steps_ = 0;
  }
}

std::vector<double> LossScaler::state() const {
  return {scale_, static_cast<double>(good_steps_), static_cast<double>(skipped_)};
}

void LossScaler::load_state(const std::vector<double>& state) {
  if (state.size() != 3) throw InputError("LossScaler: expected a state of three numbers");
  scale_ = state[0];
  good_steps_ = static_cast<int>(state[1]);
  skipped_ = static_cast<std::int64_t>(state[2]);
}

void cast_to_16_bits(torch::nn::Module& module, torch::ScalarType type) {
  check_type(module, type);
  const torch::NoGradGuard guard;
  std::set<const void*> kept;
  collect_kept(module, kept);
  for (torch::Tensor& parameter : module.parameters()) {
    if (is_cast(parameter, kept)) parameter.set_data(parameter.detach().to(type));
  }
}

MixedPrecision::MixedPrecision(torch::nn::Module& module, MixedPrecisionOptions options)
    : module_(module) {
  check_type(module, options.type);
  const torch::NoGradGuard guard;
  std::set<const void*> kept;
  collect_kept(module, kept);
  for (const auto& item : each_once(module.named_parameters())) {
    const torch::Tensor& parameter = item.value();
    torch::Tensor master = parameter;
    if (is_cast(parameter, kept)) {
      master = parameter.detach().clone().to(torch::kFloat32);
      master.set_requires_grad(parameter.requires_grad());
    }
    entries_.push_back({item.key(), parameter, master});
  }
  cast_to_16_bits(module, options.type);
}

std::vector<torch::Tensor> MixedPrecision::master_parameters() const {
  std::vector<torch::Tensor> masters;
  for (const Entry& entry : entries_) masters.push_back(entry.master);
  return masters;
}

torch::OrderedDict<std::string, torch::Tensor> MixedPrecision::master_named_parameters() const {
  torch::OrderedDict<std::string, torch::Tensor> masters;
  for (const Entry& entry : entries_) masters.insert(entry.name, entry.master);
  return masters;
}

torch::OrderedDict<std::string, torch::Tensor> MixedPrecision::parameters() const {
  return module_.named_parameters();
}

void MixedPrecision::zero_grad() {
  for (Entry& entry : entries_) {
    entry.model.mutable_grad() = torch::Tensor();
    entry.master.mutable_grad() = torch::Tensor();
  }
}

void MixedPrecision::unscale(double scale) {
  const torch::NoGradGuard guard;
  std::vector<torch::Tensor> dense;
  for (Entry& entry : entries_) {
    torch::Tensor& gradient = entry.model.mutable_grad();
    if (!gradient.defined()) continue;
    const bool same = entry.model.is_same(entry.master);
    if (!same) entry.master.mutable_grad() = gradient.to(torch::kFloat32);
    const torch::Tensor& own = entry.master.grad();
    if (own.is_sparse()) {
      entry.master.mutable_grad().div_(scale);
    } else if (scale != 1) {
      dense.push_back(own);
    }
  }
  if (!dense.empty()) torch::_foreach_div_(dense, scale);
}

// A GPU is waited for once.
bool MixedPrecision::has_finite_gradients() const {
  std::unordered_map<torch::Device, std::vector<torch::Tensor>> sums;
  for (const Entry& entry : entries_) {
    const torch::Tensor& gradient = entry.master.grad();
    if (gradient.defined()) sums[gradient.device()].push_back(sum_of(gradient));
  }
  return std::ranges::all_of(sums, [](const auto& of_device) {
    return std::isfinite(torch::stack(of_device.second).sum().template item<double>());
  });
}

void MixedPrecision::update_model() {
  const torch::NoGradGuard guard;
  for (Entry& entry : entries_) {
    if (!entry.model.is_same(entry.master)) entry.model.copy_(entry.master);
  }
}

}  // namespace sullae
