#include "parallel/gradient_norm.h"

#include <torch/torch.h>

#include <cmath>

namespace sullae {

double own_squares(const torch::OrderedDict<std::string, torch::Tensor>& parameters,
                   const std::map<std::string, ParameterPart>& parts, bool is_first,
                   const std::set<std::string>& elsewhere) {
  double squares = 0;
  std::set<const void*> counted;  // one that has several names is one
  for (const auto& item : parameters) {
    if (elsewhere.contains(item.key())) counted.insert(item.value().unsafeGetTensorImpl());
  }
  for (const auto& item : parameters) {
    const torch::Tensor gradient = item.value().grad();
    if (!gradient.defined() || !counted.insert(item.value().unsafeGetTensorImpl()).second) continue;
    if (is_first || parts.contains(item.key()))
      squares += std::pow(torch::norm(gradient, 2, torch::kFloat64).item<double>(), 2);
  }
  return squares;
}

torch::OrderedDict<std::string, torch::Tensor> with_masters(
    torch::OrderedDict<std::string, torch::Tensor> parameters,
    const std::map<std::string, torch::Tensor>& masters) {
  for (auto& item : parameters) {
    if (const auto master = masters.find(item.key()); master != masters.end())
      item.value() = master->second;
  }
  return parameters;
}

double clip_to_norm(const torch::OrderedDict<std::string, torch::Tensor>& parameters,
                    double squares, double max_norm, const World& world) {
  world.allreduce(&squares, &squares, 1, DataType::float64);
  const double norm = std::sqrt(squares);
  scale_to_norm(parameters, norm, max_norm);
  return norm;
}

double clip_factor(double norm, double max_norm) { return max_norm / (norm + 1e-6); }

void scale_to_norm(const torch::OrderedDict<std::string, torch::Tensor>& parameters, double norm,
                   double max_norm) {
  const torch::NoGradGuard guard;
  const double factor = clip_factor(norm, max_norm);
  if (factor >= 1) return;
  std::set<const void*> there;
  for (const auto& item : parameters) {
    if (!there.insert(item.value().unsafeGetTensorImpl()).second) continue;
    if (item.value().grad().defined()) item.value().grad().mul_(factor);
  }
}

}  // namespace sullae
