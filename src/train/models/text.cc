#include "train/models/text.h"

#include <fmt/format.h>

#include "sullae/data.h"
#include "train/models/script.h"
#include "train/models/vectors.h"

namespace sullae::train {
namespace {

constexpr double kEmbeddingDeviation = 0.1;

// Vectors that no training text may ever change begin, and so end, as nothing: drawn ones were
// noise in a quarter of NSMC's test words, worth two points of accuracy more or less. Zero is as
// good as the mean of all words, and pairs learn from it.
torch::Tensor first_vectors(const TextModelOptions& options) {
  auto vectors = torch::randn({options.words, options.embedding_size}) * kEmbeddingDeviation;
  vectors[data::Vocabulary::kPadding].zero_();
  vectors[data::Vocabulary::kUnknown].zero_();
  vectors.slice(0, options.words - options.word_pairs).zero_();
  return vectors;
}

// Of rows that lie bag after bag, each of which starts where `starts` says.
torch::Tensor means_of(const torch::Tensor& rows, const torch::Tensor& starts) {
  constexpr std::int64_t kMean = 1;
  return std::get<0>(torch::embedding_bag(rows, torch::arange(rows.size(0)), starts,
                                          /*scale_grad_by_freq=*/false, kMean));
}

}  // namespace

void TextLstmImpl::reset() {
  // Of the words' vectors only those in the batch get a gradient.
  embedding_ = register_module(
      "embedding",
      with_vectors<torch::nn::Embedding>(
          torch::nn::EmbeddingOptions(options_.words, options_.embedding_size).sparse(true),
          first_vectors(options_)));
  lstm_ = register_module(
      "lstm", torch::nn::LSTM(torch::nn::LSTMOptions(options_.embedding_size, options_.hidden_size)
                                  .num_layers(options_.layers)
                                  .dropout(options_.layers > 1 ? options_.dropout : 0)));
  output_ = register_module("output", torch::nn::Linear(options_.hidden_size, options_.classes));
}

torch::Tensor TextLstmImpl::scores(const Batch& batch) {
  // The vectors are float32 in mixed precision too.
  const auto words =
      source() != nullptr ? source()->rows(batch.inputs[0]) : embedding_(batch.inputs[0]);
  auto vectors =
      torch::dropout(words, options_.dropout, is_training()).to(output_->weight.scalar_type());
  const torch::nn::utils::rnn::PackedSequence packed(vectors, batch.inputs[1].cpu());
  const auto last_hidden = std::get<0>(std::get<1>(lstm_->forward_with_packed_input(packed)));
  return output_(torch::dropout(last_hidden[-1], options_.dropout, is_training()));
}

torch::jit::Module TextLstmImpl::script() const {
  std::string weights;
  for (std::int64_t layer = 0; layer < options_.layers; ++layer) {
    for (const char* name : {"weight_ih", "weight_hh", "bias_ih", "bias_hh"})
      weights += fmt::format("{}self.lstm_{}_l{}", weights.empty() ? "" : ", ", name, layer);
  }
  // Texts are sorted by length, since the LSTM takes the longest first, and then put back.
  return make_script(
      *this, fmt::format(R"(
def forward(self, words, lengths):
    sorted_lengths, order = torch.sort(lengths, 0, True)
    vectors = torch.embedding(self.embedding_weight, torch.index_select(words, 0, order))
    packed, sizes = torch._pack_padded_sequence(vectors, sorted_lengths.cpu(), True)
    state = torch.zeros([{layers}, words.size(0), {hidden}], dtype=vectors.dtype, device=vectors.device)
    output, last_hidden, last_cell = torch.lstm(
        packed, sizes, [state, state], [{weights}], True, {layers}, 0.0, False, False)
    scores = torch.linear(torch.select(last_hidden, 0, {layers} - 1), self.output_weight, self.output_bias)
    return torch.index_select(scores, 0, torch.argsort(order))
)",
                         fmt::arg("layers", options_.layers),
                         fmt::arg("hidden", options_.hidden_size), fmt::arg("weights", weights)));
}

void TextBagImpl::reset() {
  embedding_ = register_module(
      "embedding", with_vectors<torch::nn::EmbeddingBag>(
                       torch::nn::EmbeddingBagOptions(options_.words, options_.embedding_size)
                           .mode(torch::kMean)
                           .sparse(true),
                       first_vectors(options_)));
  output_ = register_module("output", torch::nn::Linear(options_.embedding_size, options_.classes));
}

torch::Tensor TextBagImpl::scores(const Batch& batch) {
  const auto means = source() != nullptr
                         ? means_of(source()->rows(batch.inputs[0]), batch.inputs[1])
                         : embedding_(batch.inputs[0], batch.inputs[1]);
  return output_(
      torch::dropout(means, options_.dropout, is_training()).to(output_->weight.scalar_type()));
}

torch::jit::Module TextBagImpl::script() const {
  return make_script(*this, R"(
def forward(self, words, lengths):
    inside = torch.lt(torch.arange(words.size(1), device=words.device).unsqueeze(0), lengths.unsqueeze(1))
    starts = torch.cumsum(lengths, 0) - lengths
    means, a, b, c = torch.embedding_bag(
        self.embedding_weight, torch.masked_select(words, inside), starts, False, 1)
    return torch.linear(means, self.output_weight, self.output_bias)
)");
}

}  // namespace sullae::train
