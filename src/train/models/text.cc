#include "train/models/text.h"

namespace sullae::train {
namespace {

constexpr double kEmbeddingDeviation = 0.1;

torch::Tensor random_vectors(const TextModelOptions& options) {
  return torch::randn({options.words, options.embedding_size}) * kEmbeddingDeviation;
}

}  // namespace

void TextLstmImpl::reset() {
  // Of the words' vectors only those in the batch get a gradient.
  embedding_ = register_module(
      "embedding",
      torch::nn::Embedding(torch::nn::EmbeddingOptions(options_.words, options_.embedding_size)
                               .sparse(true)
                               ._weight(random_vectors(options_))));
  lstm_ = register_module(
      "lstm", torch::nn::LSTM(torch::nn::LSTMOptions(options_.embedding_size, options_.hidden_size)
                                  .num_layers(options_.layers)
                                  .dropout(options_.layers > 1 ? options_.dropout : 0)));
  output_ = register_module("output", torch::nn::Linear(options_.hidden_size, options_.classes));
}

torch::Tensor TextLstmImpl::scores(const Batch& batch) {
  // The vectors are float32 in mixed precision too.
  auto vectors = torch::dropout(embedding_(batch.inputs[0]), options_.dropout, is_training())
                     .to(output_->weight.scalar_type());
  const torch::nn::utils::rnn::PackedSequence packed(vectors, batch.inputs[1].cpu());
  const auto last_hidden = std::get<0>(std::get<1>(lstm_->forward_with_packed_input(packed)));
  return output_(torch::dropout(last_hidden[-1], options_.dropout, is_training()));
}

void TextBagImpl::reset() {
  embedding_ = register_module(
      "embedding", torch::nn::EmbeddingBag(
                       torch::nn::EmbeddingBagOptions(options_.words, options_.embedding_size)
                           .mode(torch::kMean)
                           .sparse(true)
                           ._weight(random_vectors(options_))));
  output_ = register_module("output", torch::nn::Linear(options_.embedding_size, options_.classes));
}

torch::Tensor TextBagImpl::scores(const Batch& batch) {
  const auto means = embedding_(batch.inputs[0], batch.inputs[1]);
  return output_(
      torch::dropout(means, options_.dropout, is_training()).to(output_->weight.scalar_type()));
}

}  // namespace sullae::train
