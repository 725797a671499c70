#include "train/models/transformer_block.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "parallel/pipeline/partition.h"
#include "parallel/tensor/parts.h"
#include "sullae/error.h"
#include "torch/compat/attention.h"
#include "train/models/few_rows.h"
#include "train/models/vectors.h"

namespace sullae::train {
namespace {

torch::Tensor through(torch::nn::Linear& layer, const torch::Tensor& x) {
  return linear_of_few(x, layer->weight, layer->bias);
}

// Of each of its stages, so that the one with the most work has as little as can be.
std::vector<IndexRange> own_blocks(std::int64_t layers, double head, const Division& division) {
  if (!division.stages) return {{0, layers}};
  const int ranks = division.stages->size();
  const int stages = ranks * division.stages_per_rank;
  if (layers < stages)
    throw InputError(fmt::format(
        "--layers {}: {} ranks have them one behind the other{}: expected at least {}", layers,
        ranks,
        division.stages_per_rank == 1
            ? ""
            : fmt::format(", in {} stages each (--stages-per-rank)", division.stages_per_rank),
        stages));
  std::vector<pipeline::LayerCost> costs(static_cast<std::size_t>(layers), {.seconds = 1});
  costs.back().seconds += head;
  auto firsts = pipeline::partition(costs, {.ranks = ranks, .chunks = division.stages_per_rank});
  firsts.push_back(static_cast<std::size_t>(layers));
  std::vector<IndexRange> own;
  for (int stage = division.stages->rank(); stage < stages; stage += ranks) {
    const auto at = static_cast<std::size_t>(stage);
    own.push_back(
        {static_cast<std::int64_t>(firsts[at]), static_cast<std::int64_t>(firsts[at + 1])});
  }
  return own;
}

}  // namespace

torch::Tensor normed(torch::nn::LayerNorm& norm, const torch::Tensor& x, torch::ScalarType type) {
  return norm(x.to(norm->weight.scalar_type())).to(type);
}

Places Places::filled(const torch::Tensor& pieces) {
  const std::int64_t batch = pieces.size(0);
  const std::int64_t time = pieces.size(1);
  return {.batch = batch,
          .time = time,
          .at = pieces.view({-1}).nonzero().squeeze(1),
          .may_look = pieces.ne(0).view({batch, 1, 1, time})};
}

Places Places::causal(std::int64_t batch, std::int64_t time) {
  return {.batch = batch, .time = time, .is_causal = true};
}

Places Places::growing(std::vector<GrowingText> texts) { return {.texts = std::move(texts)}; }

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

torch::Tensor TransformerBlockImpl::attend(const torch::Tensor& x, const Places& places) {
  auto values = through(qkv_, x);
  if (!places.texts.empty())
    return through(
        mix_, attention_of_growing(values.view({-1, 3, heads_, size_ / heads_}), places.texts));
  const std::int64_t size = values.size(1) / 3;  // of this rank's heads
  if (places.at.defined())
    values =
        values.new_zeros({places.batch * places.time, 3 * size}).index_copy(0, places.at, values);
  // [3, batch, heads, time, size of a head]
  const auto qkv =
      values.view({places.batch, places.time, 3, -1, size_ / heads_}).permute({2, 0, 3, 1, 4});
  const auto seen = attention(qkv[0], qkv[1], qkv[2], places.may_look, places.is_causal)
                        .transpose(1, 2)
                        .reshape({-1, size});
  return sum_of_parts(mix_, places.at.defined() ? seen.index_select(0, places.at) : seen);
}

torch::Tensor TransformerBlockImpl::for_each_part(const torch::Tensor& x) const {
  return ranks_ ? copy_to_ranks(x, *ranks_) : x;
}

torch::Tensor TransformerBlockImpl::sum_of_parts(torch::nn::Linear& layer,
                                                 const torch::Tensor& x) const {
  if (!ranks_) return through(layer, x);
  // The bias counts once, and not for each rank.
  return reduce_from_ranks(torch::linear(x, layer->weight), *ranks_) + layer->bias;
}

void TransformerBlockImpl::divide(const World& ranks) {
  if (heads_ < ranks.size())
    throw InputError(fmt::format("--heads {}: {} ranks divide them: expected at least one a rank",
                                 heads_, ranks.size()));
  ranks_ = ranks;
  auto parameters = named_parameters();
  for (const auto& [name, part] : parts())
    parameters[name].set_data(take_part(parameters[name], part));
}

std::map<std::string, ParameterPart> TransformerBlockImpl::parts() const {
  if (!ranks_) return {};
  const auto of_three = heads_part(0, 3, size_, heads_, *ranks_);
  const auto inner = even_parameter_part(0, 4 * size_, *ranks_);
  return {{"qkv.weight", of_three},
          {"qkv.bias", of_three},
          {"mix.weight", heads_part(1, 1, size_, heads_, *ranks_)},
          {"up.weight", inner},
          {"up.bias", inner},
          {"down.weight", even_parameter_part(1, 4 * size_, *ranks_)}};
}

torch::Tensor TransformerBlockImpl::forward(const torch::Tensor& input, const Places& places) {
  const auto drop = [&](const torch::Tensor& x) {
    return torch::dropout(x, dropout_, is_training());
  };
  const auto own = [&](torch::nn::LayerNorm& norm, const torch::Tensor& x) {
    return for_each_part(normed(norm, x, type()));
  };
  const auto x = input + drop(attend(own(norm1_, input), places));
  return x + drop(sum_of_parts(down_, torch::gelu(through(up_, own(norm2_, x)))));
}

void TransformerBlocks::add(std::int64_t number, TransformerBlock block, const Division& division) {
  if (division.tensor) block->divide(*division.tensor);
  layers_.emplace_back(fmt::format("blocks.{}", number), block.ptr(), division);
  numbers_.push_back(number);
  const std::vector<std::pair<std::string, std::shared_ptr<torch::nn::Module>>> named = {
      {std::to_string(number), block.ptr()}};
  modules_->update(named);
}

torch::Tensor TransformerBlocks::run(int stage, torch::Tensor x, const Places& places) {
  const auto blocks = modules_->children();  // not kept here: a clone's list gets other ones
  const auto own = static_cast<std::size_t>(stage);
  const std::size_t end = own + 1 < firsts_.size() ? firsts_[own + 1] : layers_.size();
  for (std::size_t i = firsts_[own]; i < end; ++i) {
    auto& block = *blocks[i]->as<TransformerBlockImpl>();
    x = layers_[i].run(x, [&](const torch::Tensor& input) { return block.forward(input, places); });
  }
  return x;
}

int TransformerBlocks::stage_of(const std::string& name, const Division& division) const {
  const int ranks = division.stages ? division.stages->size() : 1;
  const int rank = division.stages ? division.stages->rank() : 0;
  for (std::size_t i = 0; i < numbers_.size(); ++i) {
    const auto block = fmt::format("blocks.{}", numbers_[i]);
    if (name != block && !name.starts_with(block + '.')) continue;
    const auto own = std::ranges::upper_bound(firsts_, i) - firsts_.begin() - 1;
    return static_cast<int>(own) * ranks + rank;
  }
  return division.is_first() ? 0 : stages() * ranks - 1;
}

torch::ScalarType TransformerBlocks::type() const {
  return modules_->children().front()->as<TransformerBlockImpl>()->type();
}

void TransformerStack::check() const {
  if (size < 1) throw InputError(fmt::format("--embedding-size {}: expected 1 or more", size));
  if (dropout < 0 || dropout >= 1)
    throw InputError(fmt::format("--dropout {}: expected 0 to less than 1", dropout));
  if (heads < 1 || size % heads != 0)
    throw InputError(
        fmt::format("--embedding-size {} is not a multiple of --heads {}", size, heads));
  if (layers < 1) throw InputError(fmt::format("--layers {}: expected 1 or more", layers));
}

TransformerBlocks TransformerStack::make(
    const Division& division, double head,
    const std::function<void(torch::nn::Module& block)>& draw) const {
  const auto own = own_blocks(layers, head, division);
  TransformerBlocks blocks;
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    TransformerBlock block(size, heads, dropout);
    if (draw) draw(*block);
    for (const auto& [from, to] : own) {
      if (layer == from) blocks.begin_stage();
      if (from <= layer && layer < to) blocks.add(layer, block, division);
    }
  }
  return blocks;
}

std::string TransformerStack::methods() const {
  return kAttentionScript + fmt::format(R"(
def norm(self, x, weight, bias):
    return torch.layer_norm(x, [{size}], weight, bias)

def block(self, x, may_look, n1w, n1b, qkvw, qkvb, mixw, mixb, n2w, n2b, upw, upb, downw, downb):
    parts = torch.linear(self.norm(x, n1w, n1b), qkvw, qkvb).view([x.size(0), x.size(1), 3, {heads}, {head}])
    q, k, v = torch.unbind(parts.permute([2, 0, 3, 1, 4]), 0)
    seen = self.attention(q, k, v, may_look).transpose(1, 2).reshape([x.size(0), x.size(1), {size}])
    x = x + torch.linear(seen, mixw, mixb)
    return x + torch.linear(torch.gelu(torch.linear(self.norm(x, n2w, n2b), upw, upb)), downw, downb)
)",
                                        fmt::arg("size", size), fmt::arg("heads", heads),
                                        fmt::arg("head", size / heads));
}

std::string TransformerStack::calls() const {
  std::string lines;
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    std::string weights;
    for (const char* const part : {"norm1", "qkv", "mix", "norm2", "up", "down"})
      weights += fmt::format(", self.blocks_{0}_{1}_weight, self.blocks_{0}_{1}_bias", layer, part);
    lines += fmt::format("    x = self.block(x, may_look{})\n", weights);
  }
  return lines;
}

torch::nn::Embedding make_vectors(std::int64_t count, std::int64_t size, double deviation) {
  return with_vectors<torch::nn::Embedding>(torch::nn::EmbeddingOptions(count, size),
                                            torch::randn({count, size}) * deviation);
}

}  // namespace sullae::train
