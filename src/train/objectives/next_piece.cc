#include "train/objectives/next_piece.h"

#include <torch/torch.h>

#include <algorithm>

#include "parallel/tensor/scores_in_parts.h"
#include "sullae/torch.h"
#include "train/task.h"

namespace sullae::train {
namespace {

// Scores of so many numbers stay in the processor's cache from their matrix product to that of
// their gradients. A GPU is at its best with many, which take half a gigabyte here.
constexpr std::int64_t kScoresTogether = 1 << 20;
constexpr std::int64_t kScoresTogetherOnGpu = 1 << 27;
constexpr std::int64_t kLeastPlaces = 64;

// Calls `take` with the first of the places of `states` and the number of places of each part.
template <class Take>
void in_parts(const torch::Tensor& states, std::int64_t pieces, const Take& take) {
  const std::int64_t places = states.size(0);
  const std::int64_t together = states.is_cuda() ? kScoresTogetherOnGpu : kScoresTogether;
  const std::int64_t most = std::max(kLeastPlaces, together / pieces);
  for (std::int64_t first = 0; first < places; first += most)
    take(first, std::min(most, places - first));
}

torch::Tensor scores_of(const torch::Tensor& states, const torch::Tensor& vectors) {
  return torch::mm(states, vectors.t()).to(torch::kFloat32);
}

// Pieces that a rank has, at most: all ranks take as many places at a time.
std::int64_t most_pieces(const PieceVectors& vectors) {
  const std::int64_t ranks = vectors.ranks ? vectors.ranks->size() : 1;
  return (vectors.pieces + ranks - 1) / ranks;
}

// What is known of places by their `scores` of the pieces that this rank has; all [places, 1].
struct Followed {
  torch::Tensor at;       // what follows, among this rank's pieces; 0 where it has it not
  torch::Tensor here;     // 1 where it has it, else 0
  torch::Tensor total;    // the logarithm of the sum of all pieces' exponentials
  torch::Tensor entropy;  // of what follows
};

Followed followed(const torch::Tensor& scores, const torch::Tensor& labels,
                  const PieceVectors& vectors) {
  if (vectors.ranks) {
    const auto parts = scores_in_parts(scores, labels, vectors.first, *vectors.ranks);
    const auto sum = parts.sum.log();
    return {.at = parts.own.unsqueeze(1),
            .here = parts.is_own.to(torch::kFloat32).unsqueeze(1),
            .total = (parts.most + sum).unsqueeze(1),
            .entropy = (sum - parts.score).unsqueeze(1)};
  }
  const auto at = labels.clamp_min(0).unsqueeze(1);
  const auto total = scores.logsumexp(1, /*keepdim=*/true);
  return {.at = at,
          .here = torch::ones_like(at, torch::kFloat32),
          .total = total,
          .entropy = total - scores.gather(1, at)};
}

// Where what follows has the best score of all pieces.
torch::Tensor is_right(const torch::Tensor& scores, const torch::Tensor& labels,
                       const PieceVectors& vectors) {
  if (!vectors.ranks) return scores.argmax(1).eq(labels);
  const auto [own_best, own_at] = scores.max(1);
  auto best = own_best.clone();
  allreduce(best, ReduceOp::max, *vectors.ranks);
  auto at = (own_at + vectors.first).masked_fill(own_best.lt(best), vectors.pieces);
  allreduce(at, ReduceOp::min, *vectors.ranks);
  return at.eq(labels);
}

struct Loss : torch::autograd::Function<Loss> {
  static torch::Tensor forward(torch::autograd::AutogradContext* context,
                               const torch::Tensor& states, const torch::Tensor& vectors,
                               const torch::Tensor& labels, const torch::Tensor& weights,
                               const PieceVectors& pieces) {
    auto loss = torch::zeros({}, states.options().dtype(torch::kFloat32));
    // Gradients are kept as if the greatest weight were 1, so that 16 bits hold the small ones:
    // what scales the loss does so after this.
    const auto largest = weights.max().clamp_min(1e-30);
    const auto states_gradient = torch::empty_like(states);
    // Of many parts: 16 bits would lose the later ones.
    const auto vectors_gradient =
        torch::zeros(vectors.sizes(), vectors.options().dtype(torch::kFloat32));
    in_parts(states, most_pieces(pieces), [&](std::int64_t first, std::int64_t count) {
      const auto state = states.narrow(0, first, count);
      const auto weight = weights.narrow(0, first, count).unsqueeze(1);
      auto scores = scores_of(state, vectors);
      const auto follows = followed(scores, labels.narrow(0, first, count), pieces);
      loss += (follows.entropy * weight).sum();
      // The probabilities, less 1 for what follows.
      scores.sub_(follows.total)
          .exp_()
          .scatter_add_(1, follows.at, -follows.here)
          .mul_(weight / largest);
      const auto gradient = scores.to(states.scalar_type());
      states_gradient.narrow(0, first, count).copy_(torch::mm(gradient, vectors));
      if (vectors.scalar_type() == torch::kFloat32) {
        vectors_gradient.addmm_(gradient.t(), state);
      } else {
        vectors_gradient.add_(torch::mm(gradient.t(), state));
      }
    });
    context->save_for_backward({states_gradient, vectors_gradient, largest});
    context->saved_data["type"] = vectors.scalar_type();
    return loss;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const auto scale = gradients[0] * saved[2];
    return {saved[0] * scale,
            (saved[1] * scale).to(context->saved_data["type"].toScalarType()),
            {},
            {},
            {}};
  }
};

LanguageModel& language_model(torch::nn::Module& model) {
  return dynamic_cast<LanguageModel&>(model);
}

}  // namespace

torch::Tensor next_piece_loss(const torch::Tensor& states, const PieceVectors& vectors,
                              const torch::Tensor& labels, const torch::Tensor& weights) {
  return Loss::apply(states, vectors.own, labels, weights, vectors);
}

torch::Tensor NextPiece::loss(torch::nn::Module& model, const Batch& batch) const {
  auto& writer = language_model(model);
  const auto is_label = batch.labels.ne(kNoToken).to(torch::kFloat32);
  const auto counts = is_label.sum(1, /*keepdim=*/true).clamp_min(1);
  const auto weights = (is_label / (counts * batch.size())).flatten();
  return writer.read(batch.inputs[0],
                     [&](const torch::Tensor& states, const PieceVectors& vectors) {
                       return next_piece_loss(states, vectors, batch.labels.flatten(), weights);
                     });
}

Tally NextPiece::measure(torch::nn::Module& model, const Batch& batch) const {
  const auto labels = batch.labels.flatten();
  Sum loss;
  Sum right;
  const auto measure_all = [&](const torch::Tensor& states, const PieceVectors& vectors) {
    in_parts(states, most_pieces(vectors), [&](std::int64_t first, std::int64_t count) {
      const auto scores = scores_of(states.narrow(0, first, count), vectors.own);
      const auto label = labels.narrow(0, first, count);
      const auto is_label = label.ne(kNoToken);
      const auto entropies = followed(scores, label, vectors).entropy.squeeze(1);
      loss.sum += entropies.masked_fill(is_label.logical_not(), 0).sum().item<double>();
      loss.count += is_label.sum().item<double>();
      right.sum += is_right(scores, label, vectors).sum().item<double>();
    });
    return torch::Tensor();
  };
  language_model(model).read(batch.inputs[0], measure_all);
  right.count = loss.count;
  return {.loss = loss, .metrics = {loss, right}};
}

}  // namespace sullae::train
