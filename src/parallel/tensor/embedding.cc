#include <torch/torch.h>

#include "parallel/tensor/parts.h"
#include "sullae/parallel/tensor_parallel.h"

namespace sullae {

torch::Tensor embedding_in_parts(const torch::Tensor& own, const torch::Tensor& indices,
                                 const ParameterPart& part, const World& world) {
  const auto [from, to] = part.ranges.front();
  const auto elsewhere = indices.lt(from).logical_or(indices.ge(to));
  const auto here = (indices - from).masked_fill(elsewhere, 0);
  return reduce_from_ranks(torch::embedding(own, here).masked_fill(elsewhere.unsqueeze(-1), 0),
                           world);
}

VocabParallelEmbeddingImpl::VocabParallelEmbeddingImpl(std::int64_t num_embeddings,
                                                       std::int64_t embedding_dim,
                                                       const World& world)
    : num_embeddings_(num_embeddings), world_(world) {
  check_one_each(num_embeddings, world, "VocabParallelEmbedding: num_embeddings");
  const torch::nn::Embedding whole(num_embeddings, embedding_dim);
  weight = register_parameter(
      "weight", take_part(whole->weight, even_parameter_part(0, num_embeddings, world)));
}

torch::Tensor VocabParallelEmbeddingImpl::forward(const torch::Tensor& indices) {
  if (world_.size() == 1) return torch::embedding(weight, indices);
  check_indices(indices, num_embeddings_, "VocabParallelEmbedding: index");
  return embedding_in_parts(weight, indices, parts().at("weight"), world_);
}

std::map<std::string, ParameterPart> VocabParallelEmbeddingImpl::parts() const {
  return {{"weight", even_parameter_part(0, num_embeddings_, world_)}};
}

}  // namespace sullae
