// Residual networks (K. He et al., 2015), version 1.5: in a bottleneck the 3×3 convolution has the
// stride. Parameters have torchvision's names.
#pragma once

#include <torch/torch.h>

#include <array>
#include <functional>

#include "sullae/sullae.h"
#include "train/task.h"

namespace sullae::train {

struct ResNetOptions {
  /// 18, 34, 50 or 101.
  int depth = 50;
  std::int64_t classes = 1000;
  /// For images of up to 64 pixels: a 3×3 convolution without stride and no pooling at the start.
  bool small_images = false;
  /// The last norm of each residual block starts at 0, so that blocks start as identities (P. Goyal
  /// et al., 2017).
  bool zero_init_residual = true;
  /// Batch norms over all ranks of the world that this gives at each of them; empty for each rank
  /// by itself.
  std::function<World()> sync_batch_norm = {};
};

/// [batch, 3, rows, columns] -> [batch, classes]
class ResNetImpl : public torch::nn::Cloneable<ResNetImpl>, public Classifier {
 public:
  /// Throws InputError for a depth that there is none of.
  explicit ResNetImpl(const ResNetOptions& options);
  void reset() override;
  torch::Tensor forward(torch::Tensor x);
  torch::Tensor scores(const Batch& batch) override { return forward(batch.inputs[0]); }
  torch::jit::Module script() const override;

 private:
  void make_stage(int index, std::int64_t width, int blocks, std::int64_t stride);
  void initialise();

  ResNetOptions options_;
  std::int64_t channels_ = 64;  // of what has been made so far
  torch::nn::Conv2d conv1_{nullptr};
  torch::nn::BatchNorm2d bn1_{nullptr};
  std::array<torch::nn::Sequential, 4> stages_ = {nullptr, nullptr, nullptr, nullptr};
  torch::nn::Linear fc_{nullptr};
};
TORCH_MODULE(ResNet);

}  // namespace sullae::train
