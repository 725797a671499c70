// What pieces of texts mean: a vector each, of which ranks may have parts.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "sullae/parallel/tensor_parallel.h"

namespace sullae::train {

/// The vectors that a rank has.
struct PieceVectors {
  torch::Tensor own;                ///< [own pieces, size]
  std::int64_t first = 0;           ///< the number of the first
  std::int64_t pieces = 0;          ///< that there are in all
  std::optional<World> ranks = {};  ///< that have the others; none: all are here
};

/// Numbers of pieces [*] int64 → [*, size].
class PieceEmbeddingImpl : public torch::nn::Cloneable<PieceEmbeddingImpl>,
                           public TensorParallelLayer,
                           public StaysInFloat32 {
 public:
  /// Drawn with this deviation: of parts the whole is. Throws InputError where there are fewer
  /// pieces than ranks.
  PieceEmbeddingImpl(std::int64_t pieces, std::int64_t size, double deviation,
                     const std::optional<World>& ranks);
  void reset() override;
  torch::Tensor forward(const torch::Tensor& numbers);
  PieceVectors vectors() const;

  std::map<std::string, ParameterPart> parts() const override;
  const World* ranks() const override { return ranks_ ? &*ranks_ : nullptr; }

 private:
  std::int64_t pieces_;
  std::int64_t size_;
  double deviation_;
  std::optional<World> ranks_;
  torch::Tensor weight_;
};
TORCH_MODULE(PieceEmbedding);

}  // namespace sullae::train
