#include "train/models/gpt.h"

#include <fmt/format.h>

#include <cmath>

#include "train/models/few_rows.h"
#include "train/models/script.h"

namespace sullae::train {
namespace {

constexpr double kWeightDeviation = 0.02;

// What `layers` blocks add up does not grow with their number.
void draw_block(torch::nn::Module& block, std::int64_t layers) {
  const double added = kWeightDeviation / std::sqrt(2.0 * static_cast<double>(layers));
  const torch::NoGradGuard guard;
  for (auto& item : block.named_parameters()) {
    const std::string& name = item.key();
    if (name.ends_with("mix.weight") || name.ends_with("down.weight")) {
      item.value().normal_(0, added);
    } else if (item.value().dim() == 2) {
      item.value().normal_(0, kWeightDeviation);
    } else if (name.ends_with("bias")) {
      item.value().zero_();
    }
  }
}

// What scoring costs beside a block: products with pieces × size numbers, and with 12 × size² and
// twice as many places × size.
double head_in_blocks(const GptOptions& options) {
  const auto size = static_cast<double>(options.stack.size);
  return static_cast<double>(options.pieces) /
         (12 * size + 2 * static_cast<double>(options.context));
}

}  // namespace

GptImpl::GptImpl(const GptOptions& options) : options_(options) {
  options.stack.check();
  if (options.context < 1)
    throw InputError(fmt::format("--context {}: expected 1 or more", options.context));
  GptImpl::reset();
}

// What is another stage's is drawn, too, so that a seed begins the same model.
void GptImpl::reset() {
  const std::int64_t size = options_.stack.size;
  const Division& division = options_.division;
  Ends ends(*this);
  embedding_ = PieceEmbedding(options_.pieces, size, kWeightDeviation, division.tensor);
  ends.add("embedding", division.is_first() || division.is_last(), embedding_);
  places_ = make_vectors(options_.context, size, kWeightDeviation);
  ends.add("places", division.is_first(), places_);
  blocks_ = options_.stack.make(division, head_in_blocks(options_), [&](torch::nn::Module& block) {
    draw_block(block, options_.stack.layers);
  });
  register_module("blocks", blocks_.modules());
  norm_ = torch::nn::LayerNorm(torch::nn::LayerNormOptions({size}));
  ends.add("norm", division.is_last(), norm_);
  ends_ = ends.layer(division);
}

// [batch × time, size]
torch::Tensor GptImpl::begin(const torch::Tensor& pieces) {
  const auto x = ends_.run(pieces, [&](const torch::Tensor& numbers) {
    return embedding_(numbers) + places_(torch::arange(numbers.size(1), numbers.options()));
  });
  return torch::dropout(x.flatten(0, 1), options_.stack.dropout, is_training());
}

torch::Tensor GptImpl::run_stage(int own, const Batch& batch, const torch::Tensor& arrived) {
  const auto& pieces = batch.inputs[0];
  return blocks_.run(own, arrived.defined() ? arrived : begin(pieces),
                     Places::causal(pieces.size(0), pieces.size(1)));
}

torch::Tensor GptImpl::read(const torch::Tensor& pieces, const UseOfStates& use) {
  const auto x = blocks_.run_last(arrived_.defined() ? arrived_ : begin(pieces),
                                  Places::causal(pieces.size(0), pieces.size(1)));
  return ends_.run(x, [&](const torch::Tensor& states) {
    auto vectors = embedding_->vectors();
    // They are in 32 bits. A GPU scores in 16 where the blocks do: there it is many times as fast,
    // on processors it is slower.
    if (states.is_cuda()) vectors.own = vectors.own.to(blocks_.type());
    const auto normal = normed(norm_, states, vectors.own.scalar_type());
    return use(vectors.ranks ? copy_to_ranks(normal, *vectors.ranks) : normal, vectors);
  });
}

torch::Tensor GptImpl::go_on(const std::vector<NewPieces>& texts) {
  std::vector<std::int64_t> pieces;
  std::vector<std::int64_t> at;
  std::vector<std::int64_t> last;
  std::vector<GrowingText> growing;
  for (const auto& [more, cache] : texts) {
    const auto count = static_cast<std::int64_t>(more.size());
    if (count < 1 || cache->size() + count > options_.context)
      throw InputError(fmt::format("a text of {} + {} pieces: expected 1 or more, and {} in all",
                                   cache->size(), count, options_.context));
    growing.push_back({static_cast<std::int64_t>(pieces.size()), count, cache});
    for (std::int64_t i = 0; i < count; ++i) at.push_back(cache->size() + i);
    pieces.insert(pieces.end(), more.begin(), more.end());
    last.push_back(static_cast<std::int64_t>(pieces.size()) - 1);
    cache->begin();
  }
  const auto vectors = embedding_->vectors().own;
  const auto on_device = [&](const std::vector<std::int64_t>& numbers) {
    return torch::tensor(numbers).to(vectors.device());
  };
  auto x = embedding_(on_device(pieces)) + places_(on_device(at));
  x = blocks_.run_last(x, Places::growing(growing));
  const auto states = normed(norm_, x.index_select(0, on_device(last)), vectors.scalar_type());
  auto scores = linear_of_few(states, vectors);
  for (const auto& text : growing) text.cache->commit(text.count);
  return scores;
}

torch::jit::Module GptImpl::script() const {
  return make_script(
      *this, options_.stack.methods() + fmt::format(R"(
def forward(self, words, lengths):
    at = torch.arange(words.size(1), device=words.device)
    may_look = torch.ge(at.unsqueeze(1), at.unsqueeze(0))
    x = torch.embedding(self.embedding_weight, words) + self.places_weight[:words.size(1)]
{blocks}    last = x[torch.arange(words.size(0), device=words.device), lengths - 1]
    return torch.linear(self.norm(last, self.norm_weight, self.norm_bias), self.embedding_weight)
)",
                                                    fmt::arg("blocks", options_.stack.calls())));
}

}  // namespace sullae::train
