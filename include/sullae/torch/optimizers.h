// Optimizers that libtorch lacks: for sparse gradients, and for large batches.
#pragma once

#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

namespace sullae {

/// Adam (D. P. Kingma, J. Ba, 2015) that also takes sparse gradients: of such a parameter only the
/// touched rows and their moments are updated, as torch.optim.SparseAdam does in Python. Dense
/// parameters of float32 and float64 in host memory are updated in one pass over memory, those of a
/// GPU together in one kernel. State and options are torch::optim::Adam's, so checkpoints of one
/// load into the other. weight_decay is not defined for sparse gradients.
class Adam : public torch::optim::Adam {
 public:
  using torch::optim::Adam::Adam;
  torch::Tensor step(LossClosure closure = nullptr) override;
};

/// AdamW (I. Loshchilov, F. Hutter, 2019), in the same ways. State and options are
/// torch::optim::AdamW's.
class AdamW : public torch::optim::AdamW {
 public:
  using torch::optim::AdamW::AdamW;
  torch::Tensor step(LossClosure closure = nullptr) override;
};

/// torch::optim::SGD, which on GPUs updates the parameters of a group together instead of one after
/// the other. State and options are its own.
class SGD : public torch::optim::SGD {
 public:
  using torch::optim::SGD::SGD;
  torch::Tensor step(LossClosure closure = nullptr) override;

 private:
  torch::Tensor step_one_by_one(const LossClosure& closure);
};

/// LARS (Y. You, I. Gitman, B. Ginsburg, 2017): SGD whose learning rate for each parameter is
/// scaled by trust_coefficient × |w| / (|g| + weight_decay × |w|). Parameters of one dimension
/// (biases, norms) are updated by plain SGD without weight decay. State and options are
/// torch::optim::SGD's.
class LARS : public torch::optim::SGD {
 public:
  /// `options` are SGD's; its weight decay enters the scaled gradient.
  LARS(std::vector<torch::Tensor> parameters, torch::optim::SGDOptions options,
       double trust_coefficient = 0.001);
  torch::Tensor step(LossClosure closure = nullptr) override;

 private:
  double trust_coefficient_;
};

/// LAMB (Y. You et al., 2020): Adam's update with decoupled weight decay, scaled for each parameter
/// by |w| / |update|. Parameters of one dimension are updated by plain Adam without weight decay.
/// State and options are torch::optim::AdamW's; amsgrad is not supported.
class LAMB : public torch::optim::AdamW {
 public:
  using torch::optim::AdamW::AdamW;
  torch::Tensor step(LossClosure closure = nullptr) override;
};

}  // namespace sullae
