// Embeddings that begin with given vectors.
#pragma once

#include <torch/torch.h>

namespace sullae::train {

/// `Layer` is Embedding or EmbeddingBag. libtorch keeps the vectors in the options, and every clone
/// would share them.
template <class Layer, class Options>
Layer with_vectors(Options options, const torch::Tensor& vectors) {
  Layer layer(options._weight(vectors));
  layer->options._weight(torch::Tensor());
  return layer;
}

}  // namespace sullae::train
