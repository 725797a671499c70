#include "train/models/transformer.h"

#include <fmt/format.h>

#include "torch/compat/attention.h"
#include "train/models/script.h"

namespace sullae::train {
namespace {

// Of what is added up along the blocks: small, so that the first steps are not lost in noise (A. Radford et al., 2019).
constexpr double kPlaceDeviation = 0.02;
constexpr double kPieceDeviation = 0.1;

// Norms compute in float32, whatever the others do.
torch::Tensor normed(torch::nn::LayerNorm& norm, const torch::Tensor& x,
                     const torch::nn::Linear& next) {
  return norm(x.to(norm->weight.scalar_type())).to(next->weight.scalar_type());
}

}  // namespace

void TransformerBlockImpl::reset() {
  const auto norm = [&] {
    return torch::nn::LayerNorm(torch::nn::LayerNormOptions({size_}));
  };
  norm1_ = register_module("norm1", norm());
  qkv_ = register_module("qkv", torch::nn::Linear(size_, 3 * size_));
  mix_ = register_module("mix", torch::nn::Linear(size_, size_));
  norm2_ = register_module("norm2", norm());
  up_ = register_module("up", torch::nn::Linear(size_, 4 * size_));
  down_ = register_module("down", torch::nn::Linear(4 * size_, size_));
}

FilledPlaces::FilledPlaces(const torch::Tensor& pieces)
    : batch(pieces.size(0)),
      time(pieces.size(1)),
      at(pieces.view({-1}).nonzero().squeeze(1)),
      may_look(pieces.ne(0).view({batch, 1, 1, time})) {}

torch::Tensor TransformerBlockImpl::attend(const torch::Tensor& x, const FilledPlaces& places) {
  const auto values = qkv_(x);
  // [3, batch, heads, time, size of a head]
  const auto qkv = values.new_zeros({places.batch * places.time, 3 * size_})
                       .index_copy(0, places.at, values)
                       .view({places.batch, places.time, 3, heads_, size_ / heads_})
                       .permute({2, 0, 3, 1, 4});
  const auto seen = attention(qkv[0], qkv[1], qkv[2], places.may_look, /*causal=*/false);
  return mix_(seen.transpose(1, 2).reshape({-1, size_}).index_select(0, places.at));
}

torch::Tensor TransformerBlockImpl::forward(const torch::Tensor& input,
                                            const FilledPlaces& places) {
  const auto drop = [&](const torch::Tensor& x) {
    return torch::dropout(x, dropout_, is_training());
  };
  const auto x = input + drop(attend(normed(norm1_, input, qkv_), places));
  return x + drop(down_(torch::gelu(up_(normed(norm2_, x, up_)))));
}

TransformerClassifierImpl::TransformerClassifierImpl(const TransformerOptions& options)
    : options_(options) {
  if (options.heads < 1 || options.embedding_size % options.heads != 0)
    throw InputError(fmt::format("--embedding-size {} is not a multiple of --heads {}",
                                 options.embedding_size, options.heads));
  if (options.layers < 1 || options.places < 1)
    throw InputError(fmt::format("--layers {} and --max-words {}: expected 1 or more",
                                 options.layers, options.places));
  TransformerClassifierImpl::reset();
}

void TransformerClassifierImpl::reset() {
  const auto vectors = [&](std::int64_t count, double deviation) {
    return torch::nn::Embedding(
        torch::nn::EmbeddingOptions(count, options_.embedding_size)
            ._weight(torch::randn({count, options_.embedding_size}) * deviation));
  };
  embedding_ = register_module("embedding", vectors(options_.pieces, kPieceDeviation));
  places_ = register_module("places", vectors(options_.places, kPlaceDeviation));
  blocks_ = register_module("blocks", torch::nn::ModuleList());
  for (std::int64_t layer = 0; layer < options_.layers; ++layer)
    blocks_->push_back(TransformerBlock(options_.embedding_size, options_.heads, options_.dropout));
  norm_ = register_module(
      "norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({options_.embedding_size})));
  output_ = register_module("output", torch::nn::Linear(options_.embedding_size, options_.classes));
}

torch::Tensor TransformerClassifierImpl::scores(const Batch& batch) {
  const torch::Tensor& pieces = batch.inputs[0];
  const auto drop = [&](const torch::Tensor& x) {
    return torch::dropout(x, options_.dropout, is_training());
  };
  const FilledPlaces places(pieces);
  const auto text = torch::div(places.at, places.time, "floor");  // that a place is of
  auto x = drop(embedding_(pieces.view({-1}).index_select(0, places.at)) +
                places_(places.at - text * places.time));
  for (const auto& block : *blocks_) x = block->as<TransformerBlockImpl>()->forward(x, places);
  x = norm_(x.to(norm_->weight.scalar_type()));
  const auto count = pieces.ne(0).sum(1, /*keepdim=*/true).to(x.scalar_type());
  const auto mean = x.new_zeros({places.batch, x.size(1)}).index_add(0, text, x) / count;
  return output_(drop(mean).to(output_->weight.scalar_type()));
}

torch::jit::Module TransformerClassifierImpl::script() const {
  std::string blocks;
  for (std::int64_t layer = 0; layer < options_.layers; ++layer) {
    std::string weights;
    for (const char* const part : {"norm1", "qkv", "mix", "norm2", "up", "down"})
      weights += fmt::format(", self.blocks_{0}_{1}_weight, self.blocks_{0}_{1}_bias", layer, part);
    blocks += fmt::format("    x = self.block(x, may_look{})\n", weights);
  }
  return make_script(
      *this,
      kAttentionScript + fmt::format(R"(
def norm(self, x, weight, bias):
    return torch.layer_norm(x, [{size}], weight, bias)

def block(self, x, may_look, n1w, n1b, qkvw, qkvb, mixw, mixb, n2w, n2b, upw, upb, downw, downb):
    parts = torch.linear(self.norm(x, n1w, n1b), qkvw, qkvb).view([x.size(0), x.size(1), 3, {heads}, {head}])
    q, k, v = torch.unbind(parts.permute([2, 0, 3, 1, 4]), 0)
    seen = self.attention(q, k, v, may_look).transpose(1, 2).reshape([x.size(0), x.size(1), {size}])
    x = x + torch.linear(seen, mixw, mixb)
    return x + torch.linear(torch.gelu(torch.linear(self.norm(x, n2w, n2b), upw, upb)), downw, downb)

def forward(self, words, lengths):
    inside = torch.lt(torch.arange(words.size(1), device=words.device).unsqueeze(0), lengths.unsqueeze(1))
    may_look = inside.view([words.size(0), 1, 1, words.size(1)])
    x = torch.embedding(self.embedding_weight, words) + self.places_weight[:words.size(1)]
{blocks}    x = self.norm(x, self.norm_weight, self.norm_bias)
    share = inside.to(x.dtype).unsqueeze(2)
    mean = torch.sum(x * share, [1]) / torch.sum(share, [1])
    return torch.linear(mean, self.output_weight, self.output_bias)
)",
                                     fmt::arg("size", options_.embedding_size),
                                     fmt::arg("heads", options_.heads),
                                     fmt::arg("head", options_.embedding_size / options_.heads),
                                     fmt::arg("blocks", blocks)));
}

}  // namespace sullae::train
