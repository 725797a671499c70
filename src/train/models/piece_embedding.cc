#include "train/models/piece_embedding.h"

#include "parallel/tensor/parts.h"

namespace sullae::train {

PieceEmbeddingImpl::PieceEmbeddingImpl(std::int64_t pieces, std::int64_t size, double deviation,
                                       const std::optional<World>& ranks)
    : pieces_(pieces), size_(size), deviation_(deviation), ranks_(ranks) {
  if (ranks) check_one_each(pieces, *ranks, "--pieces");
  PieceEmbeddingImpl::reset();
}

void PieceEmbeddingImpl::reset() {
  auto drawn = torch::randn({pieces_, size_}) * deviation_;
  for (const auto& [name, part] : parts()) drawn = take_part(drawn, part);
  weight_ = register_parameter("weight", drawn);
}

torch::Tensor PieceEmbeddingImpl::forward(const torch::Tensor& numbers) {
  if (!ranks_) return torch::embedding(weight_, numbers);
  return embedding_in_parts(weight_, numbers, parts().at("weight"), *ranks_);
}

PieceVectors PieceEmbeddingImpl::vectors() const {
  PieceVectors vectors{.own = weight_, .pieces = pieces_, .ranks = ranks_};
  if (ranks_) vectors.first = parts().at("weight").ranges.front().from;
  return vectors;
}

std::map<std::string, ParameterPart> PieceEmbeddingImpl::parts() const {
  if (!ranks_) return {};
  return {{"weight", even_parameter_part(0, pieces_, *ranks_)}};
}

}  // namespace sullae::train
