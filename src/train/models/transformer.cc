#include "train/models/transformer.h"

#include <fmt/format.h>

#include "train/models/script.h"

namespace sullae::train {
namespace {

// Of what is added up along the blocks: small, so that the first steps are not lost in noise (A.
// Radford et al., 2019).
constexpr double kPlaceDeviation = 0.02;
constexpr double kPieceDeviation = 0.1;

}  // namespace

TransformerClassifierImpl::TransformerClassifierImpl(const TransformerOptions& options)
    : options_(options) {
  options.stack.check();
  if (options.places < 1)
    throw InputError(fmt::format("--max-words {}: expected 1 or more", options.places));
  TransformerClassifierImpl::reset();
}

void TransformerClassifierImpl::reset() {
  const std::int64_t size = options_.stack.size;
  const Division& division = options_.division;
  Ends ends(*this);
  embedding_ = PieceEmbedding(options_.pieces, size, kPieceDeviation, division.tensor);
  ends.add("embedding", division.is_first(), embedding_);
  places_ = make_vectors(options_.places, size, kPlaceDeviation);
  ends.add("places", division.is_first(), places_);
  blocks_ = options_.stack.make(division);
  register_module("blocks", blocks_.modules());
  norm_ = torch::nn::LayerNorm(torch::nn::LayerNormOptions({size}));
  ends.add("norm", division.is_last(), norm_);
  output_ = torch::nn::Linear(size, options_.classes);
  ends.add("output", division.is_last(), output_);
  ends_ = ends.layer(division);
}

torch::Tensor TransformerClassifierImpl::drop(const torch::Tensor& x) const {
  return torch::dropout(x, options_.stack.dropout, is_training());
}

// [filled, size]
torch::Tensor TransformerClassifierImpl::begin(const torch::Tensor& pieces, const Places& places) {
  return drop(ends_.run(pieces, [&](const torch::Tensor& numbers) {
    return embedding_(numbers.view({-1}).index_select(0, places.at)) +
           places_(places.at.remainder(places.time));
  }));
}

torch::Tensor TransformerClassifierImpl::run_stage(int own, const Batch& batch,
                                                   const torch::Tensor& arrived) {
  const torch::Tensor& pieces = batch.inputs[0];
  const auto places = Places::filled(pieces);
  return blocks_.run(own, arrived.defined() ? arrived : begin(pieces, places), places);
}

torch::Tensor TransformerClassifierImpl::scores(const Batch& batch) {
  const torch::Tensor& pieces = batch.inputs[0];
  const auto places = Places::filled(pieces);
  const auto text = torch::div(places.at, places.time, "floor");  // that a place is of
  const auto x = blocks_.run_last(arrived_.defined() ? arrived_ : begin(pieces, places), places);
  return ends_.run(x, [&](const torch::Tensor& states) {
    const auto normal = norm_(states.to(norm_->weight.scalar_type()));
    const auto count = pieces.ne(0).sum(1, /*keepdim=*/true).to(normal.scalar_type());
    const auto mean =
        normal.new_zeros({places.batch, normal.size(1)}).index_add(0, text, normal) / count;
    return output_(drop(mean).to(output_->weight.scalar_type()));
  });
}

torch::jit::Module TransformerClassifierImpl::script() const {
  return make_script(
      *this, options_.stack.methods() + fmt::format(R"(
def forward(self, words, lengths):
    inside = torch.lt(torch.arange(words.size(1), device=words.device).unsqueeze(0), lengths.unsqueeze(1))
    may_look = inside.view([words.size(0), 1, 1, words.size(1)])
    x = torch.embedding(self.embedding_weight, words) + self.places_weight[:words.size(1)]
{blocks}    x = self.norm(x, self.norm_weight, self.norm_bias)
    share = inside.to(x.dtype).unsqueeze(2)
    mean = torch.sum(x * share, [1]) / torch.sum(share, [1])
    return torch.linear(mean, self.output_weight, self.output_bias)
)",
                                                    fmt::arg("blocks", options_.stack.calls())));
}

}  // namespace sullae::train
