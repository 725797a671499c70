#include "torch/compat/attention.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include "parallel/tensor/parts.h"
#include "sullae/parallel/tensor_parallel.h"

namespace sullae {

ParallelAttentionImpl::ParallelAttentionImpl(ParallelAttentionOptions options, const World& world)
    : options_(options), world_(world) {
  if (options.num_heads < 1 || options.embed_dim % options.num_heads != 0)
    throw InputError(
        fmt::format("ParallelAttention: embed_dim {} is not a multiple of num_heads {}",
                    options.embed_dim, options.num_heads));
  check_one_each(options.num_heads, world, "ParallelAttention: num_heads");
  const torch::nn::Linear qkv(options.embed_dim, 3 * options.embed_dim);
  const torch::nn::Linear out(options.embed_dim, options.embed_dim);
  const auto of_three = heads_part(0, 3, options.embed_dim, options.num_heads, world);
  qkv_weight = register_parameter("qkv_weight", take_part(qkv->weight, of_three));
  qkv_bias = register_parameter("qkv_bias", take_part(qkv->bias, of_three));
  out_weight = register_parameter(
      "out_weight",
      take_part(out->weight, heads_part(1, 1, options.embed_dim, options.num_heads, world)));
  out_bias = register_parameter("out_bias", out->bias.detach().clone());
}

torch::Tensor ParallelAttentionImpl::forward(const torch::Tensor& input,
                                             const torch::Tensor& is_padding) {
  const std::int64_t batch = input.size(0);
  const std::int64_t time = input.size(1);
  const std::int64_t size = options_.embed_dim / options_.num_heads;
  const std::int64_t heads = qkv_bias.size(0) / (3 * size);
  // [3, batch, heads, time, size]
  const auto qkv = torch::linear(copy_to_ranks(input, world_), qkv_weight, qkv_bias)
                       .view({batch, time, 3, heads, size})
                       .permute({2, 0, 3, 1, 4});
  torch::Tensor may_look;
  if (is_padding.defined()) may_look = is_padding.logical_not().view({batch, 1, 1, time});
  const auto seen = attention(qkv[0], qkv[1], qkv[2], may_look, options_.causal);
  const auto own =
      torch::linear(seen.transpose(1, 2).reshape({batch, time, heads * size}), out_weight);
  return reduce_from_ranks(own, world_) + out_bias;
}

std::map<std::string, ParameterPart> ParallelAttentionImpl::parts() const {
  const auto of_three = heads_part(0, 3, options_.embed_dim, options_.num_heads, world_);
  return {{"qkv_weight", of_three},
          {"qkv_bias", of_three},
          {"out_weight", heads_part(1, 1, options_.embed_dim, options_.num_heads, world_)}};
}

}  // namespace sullae
