#include <fmt/format.h>
#include <torch/torch.h>

#include "parallel/ranges.h"
#include "parallel/tensor/parts.h"
#include "parallel/tensor/scores_in_parts.h"
#include "sullae/parallel/tensor_parallel.h"
#include "sullae/torch.h"

namespace sullae {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Scores [n, own classes] and targets [n], of which those below 0 do not count.
struct CrossEntropy : torch::autograd::Function<CrossEntropy> {
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& scores,
                               const torch::Tensor& target, std::int64_t from, const World& world) {
    const auto wide = scores.scalar_type() == torch::kFloat64 ? scores : scores.to(torch::kFloat32);
    auto parts = scores_in_parts(wide, target, from, world);
    const auto counts = target.ge(0);
    const auto losses = (parts.sum.log() - parts.score).masked_fill(counts.logical_not(), 0);
    const auto count = counts.sum().to(wide.scalar_type());
    context->save_for_backward(
        {parts.exponentials.div_(parts.sum.unsqueeze(1)), parts.own, parts.is_own, counts, count});
    context->saved_data["type"] = static_cast<std::int64_t>(scores.scalar_type());
    return losses.sum() / count;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const auto& [likely, own, is_own, counts, count] =
        std::tie(saved[0], saved[1], saved[2], saved[3], saved[4]);
    auto gradient = likely.clone();
    gradient.scatter_add_(1, own.unsqueeze(1), -is_own.to(gradient.scalar_type()).unsqueeze(1));
    gradient.mul_((gradients[0] / count) * counts.unsqueeze(1));
    const auto type = static_cast<torch::ScalarType>(context->saved_data["type"].toInt());
    return {gradient.to(type), {}, {}, {}};
  }
};

}  // namespace

ScoresInParts scores_in_parts(const torch::Tensor& scores, const torch::Tensor& target,
                              std::int64_t from, const World& world) {
  ScoresInParts parts;
  parts.most = std::get<0>(scores.max(1));
  allreduce(parts.most, ReduceOp::max, world);
  const auto shifted = scores - parts.most.unsqueeze(1);
  parts.is_own = target.ge(from).logical_and(target.lt(from + scores.size(1)));
  parts.own = (target - from).masked_fill(parts.is_own.logical_not(), 0);
  parts.exponentials = shifted.exp();
  // In one message.
  torch::Tensor sums =
      torch::stack({parts.exponentials.sum(1), shifted.gather(1, parts.own.unsqueeze(1))
                                                   .squeeze(1)
                                                   .masked_fill(parts.is_own.logical_not(), 0)});
  allreduce(sums, ReduceOp::sum, world);
  parts.sum = sums[0];
  parts.score = sums[1];
  return parts;
}

torch::Tensor vocab_parallel_cross_entropy(const torch::Tensor& scores, const torch::Tensor& target,
                                           std::int64_t classes, std::int64_t ignore_index,
                                           const World& world) {
  check_one_each(classes, world, "vocab_parallel_cross_entropy: classes");
  const IndexRange own = even_part(classes, world.size(), world.rank());
  if (scores.dim() < 1 || scores.size(-1) != own.size() ||
      target.numel() * own.size() != scores.numel())
    throw InputError(fmt::format(
        "vocab_parallel_cross_entropy: scores [{}] for targets [{}]: expected the scores of this "
        "rank's {} of {} classes for each target",
        fmt::join(scores.sizes(), ", "), fmt::join(target.sizes(), ", "), own.size(), classes));
  const auto flat = target.reshape({-1});
  const auto ignored = flat.eq(ignore_index);
  check_indices(flat.masked_fill(ignored, 0), classes, "vocab_parallel_cross_entropy: target");
  return CrossEntropy::apply(scores.reshape({-1, own.size()}), flat.masked_fill(ignored, -1),
                             own.from, world);
}

}  // namespace sullae
