// What transformers are made of (A. Vaswani et al., 2017), with norms first (R. Xiong et al.,
// 2020).
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sullae/parallel/tensor_parallel.h"
#include "train/models/key_value_cache.h"
#include "train/models/layer.h"

namespace sullae::train {

/// The places of a batch of texts, which blocks work on: all in one, [filled, size].
struct Places {
  /// Those that have pieces, in texts of different lengths: most of the work is done on those
  /// alone. Each sees all of its text. `pieces`, [batch, time] int64, with zeros behind the shorter
  /// texts.
  static Places filled(const torch::Tensor& pieces);
  /// All, each of which sees those before it and itself.
  static Places causal(std::int64_t batch, std::int64_t time);
  /// The new ones of texts that go on, each of which sees those of its text before it and itself.
  static Places growing(std::vector<GrowingText> texts);

  std::int64_t batch = 0;
  std::int64_t time = 0;
  torch::Tensor at = {};        ///< [filled] int64, among batch × time; undefined for all
  torch::Tensor may_look = {};  ///< [batch, 1, 1, time] bool; undefined for everywhere
  bool is_causal = false;
  std::vector<GrowingText> texts = {};
};

/// Attention and a network of four times the size, each with a norm before and a sum after.
/// [filled, size] → the same.
class TransformerBlockImpl : public torch::nn::Cloneable<TransformerBlockImpl>,
                             public TensorParallelLayer {
 public:
  TransformerBlockImpl(std::int64_t size, std::int64_t heads, double dropout)
      : size_(size), heads_(heads), dropout_(dropout) {
    TransformerBlockImpl::reset();
  }
  void reset() override;
  torch::Tensor forward(const torch::Tensor& input, const Places& places);

  /// What it computes in: 16 bits, where its weights are cast.
  torch::ScalarType type() const { return qkv_->weight.scalar_type(); }

  /// Each of `ranks` keeps its heads, and its part of the network behind them, of what it has now.
  /// Throws InputError.
  void divide(const World& ranks);
  std::map<std::string, ParameterPart> parts() const override;
  const World* ranks() const override { return ranks_ ? &*ranks_ : nullptr; }

 private:
  torch::Tensor attend(const torch::Tensor& x, const Places& places);
  torch::Tensor for_each_part(const torch::Tensor& x) const;
  torch::Tensor sum_of_parts(torch::nn::Linear& layer, const torch::Tensor& x) const;

  std::int64_t size_;
  std::int64_t heads_;
  double dropout_;
  std::optional<World> ranks_;
  torch::nn::LayerNorm norm1_{nullptr};
  torch::nn::Linear qkv_{nullptr};
  torch::nn::Linear mix_{nullptr};
  torch::nn::LayerNorm norm2_{nullptr};
  torch::nn::Linear up_{nullptr};
  torch::nn::Linear down_{nullptr};
};
TORCH_MODULE(TransformerBlock);

/// Blocks, one after the other, of which other ranks may have some.
class TransformerBlocks {
 public:
  /// What is added from here on is of this rank's next stage.
  void begin_stage() { firsts_.push_back(layers_.size()); }
  /// `number` is its place among those of all ranks; `block` has the weights to start from.
  void add(std::int64_t number, TransformerBlock block, const Division& division);
  /// So many this rank has: one, unless ranks have several.
  int stages() const { return static_cast<int>(firsts_.size()); }
  /// `x` through one of them.
  torch::Tensor run(int stage, torch::Tensor x, const Places& places);
  /// Through the last: all there are, where nobody else has any.
  torch::Tensor run_last(torch::Tensor x, const Places& places) {
    return run(stages() - 1, std::move(x), places);
  }
  /// The number among all ranks' of the stage that has what a network calls `name`: see HasStages.
  /// What is no block is of the first or the last.
  int stage_of(const std::string& name, const Division& division) const;
  /// What they compute in. There is one.
  torch::ScalarType type() const;
  /// For the network, by the name that add() gives its parameters: "blocks".
  const torch::nn::ModuleDict& modules() const { return modules_; }

 private:
  torch::nn::ModuleDict modules_;
  std::vector<Layer> layers_;
  std::vector<std::int64_t> numbers_;  // of the layers
  std::vector<std::size_t> firsts_;    // of the stages
};

/// How large they are.
struct TransformerStack {
  std::int64_t size = 128;
  std::int64_t heads = 4;
  std::int64_t layers = 2;
  double dropout = 0.1;

  /// Throws InputError, by flags, for sizes that do not go together.
  void check() const;
  /// This rank's. `draw` draws a block's weights; empty: libtorch has. Blocks of other ranks are
  /// drawn, too, so that a seed begins the same model. `head` is the work of what comes behind the
  /// last one, in blocks. Throws InputError where there are fewer than stages.
  TransformerBlocks make(const Division& division, double head = 0,
                         const std::function<void(torch::nn::Module& block)>& draw = {}) const;

  /// In TorchScript: the methods attention, norm and block; and the lines that put `x` through the
  /// parameters of a module called `blocks` with a mask `may_look`.
  std::string methods() const;
  std::string calls() const;
};

/// Norms compute in float32, whatever the others do: the result is of `type`.
torch::Tensor normed(torch::nn::LayerNorm& norm, const torch::Tensor& x, torch::ScalarType type);

/// Vectors for `count` numbers, drawn with this deviation.
torch::nn::Embedding make_vectors(std::int64_t count, std::int64_t size, double deviation);

}  // namespace sullae::train
