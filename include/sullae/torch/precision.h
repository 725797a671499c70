// Mixed precision: a model that computes in 16 bits, and weights that are updated in 32.
#pragma once

#include <torch/nn/module.h>
#include <torch/ordered_dict.h>
#include <torch/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "sullae/sullae.h"

namespace sullae {

struct LossScalerOptions {
  /// Factor on the loss, so that small gradients are not lost in float16.
  double scale = 65536;
  /// Halve it when gradients overflow, double it after `growth_interval` steps without; else it
  /// stays.
  bool dynamic = true;
  int growth_interval = 2000;
};

/// Scales losses (P. Micikevicius et al., 2018), and decides which steps are skipped. Used by one
/// thread.
class LossScaler {
 public:
  explicit LossScaler(LossScalerOptions options = {});
  double scale() const { return scale_; }
  torch::Tensor scale(const torch::Tensor& loss) const { return loss * scale_; }
  /// Call it after each step with whether the gradients were finite.
  void update(bool finite);
  /// Steps that were skipped.
  std::int64_t skipped() const { return skipped_; }

  /// What a checkpoint keeps.
  std::vector<double> state() const;
  void load_state(const std::vector<double>& state);

 private:
  LossScalerOptions options_;
  double scale_;
  int good_steps_ = 0;
  std::int64_t skipped_ = 0;
};

/// What a module of one's own is, too, whose parameters are not cast: a norm, say, or an embedding.
class StaysInFloat32 {
 public:
  virtual ~StaysInFloat32() = default;
};

/// Casts `module` as MixedPrecision does, and keeps no other weights. Throws InputError as it does.
void cast_to_16_bits(torch::nn::Module& module, torch::ScalarType type);

struct MixedPrecisionOptions {
  /// torch::kBFloat16 or torch::kFloat16. libtorch computes in float16 on GPUs alone.
  torch::ScalarType type = torch::kBFloat16;
};

/// Casts a model to 16 bits and keeps its weights in float32 beside it (master weights).
///
/// Norm layers and embeddings (libtorch's, and modules that say StaysInFloat32) stay float32: the
/// one since their sums need it, the other since only few rows are touched in a step. Models whose
/// layers differ in type cast what they pass on.
///
///   sullae::MixedPrecision mixed(*model);
///   torch::optim::SGD sgd(mixed.master_parameters(), 0.1);
///   sullae::DistributedOptimizer optimizer(sgd, mixed.parameters());   // gradients travel in 16 bits
///   ...
///   mixed.zero_grad();
///   scaler.scale(loss).backward();
///   optimizer.synchronize();
///   mixed.unscale(scaler.scale());
///   bool finite = mixed.has_finite_gradients();                        // the same on every rank
///   if (finite) { optimizer.step(); mixed.update_model(); }
///   scaler.update(finite);
///
/// Given master_named_parameters() instead, and overlap = false, DistributedOptimizer averages in
/// float32: call unscale() before synchronize().
///
/// Used by one thread.
class MixedPrecision {
 public:
  /// Collects the master weights and casts `module`, which must outlive this object. Throws
  /// InputError for a type other than those two, and for float16 on the CPU.
  explicit MixedPrecision(torch::nn::Module& module, MixedPrecisionOptions options = {});

  /// What the optimizer updates, in the order of module.parameters(): parameters that stay float32
  /// are their own masters.
  std::vector<torch::Tensor> master_parameters() const;
  torch::OrderedDict<std::string, torch::Tensor> master_named_parameters() const;
  /// The model's, some of them in 16 bits.
  torch::OrderedDict<std::string, torch::Tensor> parameters() const;

  /// Removes the gradients of the model and of the master weights.
  void zero_grad();
  /// Moves the model's gradients to the master weights, divided by `scale`.
  void unscale(double scale);
  /// Whether the gradients of the master weights are finite: an infinity on one rank is one on
  /// every rank once gradients are reduced.
  bool has_finite_gradients() const;
  /// Casts the master weights into the model.
  void update_model();

 private:
  struct Entry {
    std::string name;
    torch::Tensor model;
    torch::Tensor master;  // the same tensor where it stays float32
  };
  torch::nn::Module& module_;
  std::vector<Entry> entries_;
};

}  // namespace sullae
