#include "train/objectives/next_piece.h"

#include <torch/torch.h>

#include <algorithm>

#include "train/task.h"

namespace sullae::train {
namespace {

// Scores of so many numbers stay in the processor's cache from their matrix product to that of their gradients.
constexpr std::int64_t kScoresTogether = 1 << 20;
constexpr std::int64_t kLeastPlaces = 64;

// Calls `take` with the first place and the number of places of each part.
template <class Take>
void in_parts(std::int64_t places, std::int64_t pieces, const Take& take) {
  const std::int64_t most = std::max(kLeastPlaces, kScoresTogether / pieces);
  for (std::int64_t first = 0; first < places; first += most)
    take(first, std::min(most, places - first));
}

torch::Tensor scores_of(const torch::Tensor& states, const torch::Tensor& vectors) {
  return torch::mm(states, vectors.t()).to(torch::kFloat32);
}

struct Loss : torch::autograd::Function<Loss> {
  static torch::Tensor forward(torch::autograd::AutogradContext* context,
                               const torch::Tensor& states, const torch::Tensor& vectors,
                               const torch::Tensor& labels, const torch::Tensor& weights) {
    auto loss = torch::zeros({}, states.options().dtype(torch::kFloat32));
    // Gradients are kept as if the greatest weight were 1, so that 16 bits hold the small ones: what scales the loss does so
    // after this.
    const auto largest = weights.max().clamp_min(1e-30);
    const auto states_gradient = torch::empty_like(states);
    // Of many parts: 16 bits would lose the later ones.
    const auto vectors_gradient =
        torch::zeros(vectors.sizes(), vectors.options().dtype(torch::kFloat32));
    in_parts(states.size(0), vectors.size(0), [&](std::int64_t first, std::int64_t count) {
      const auto state = states.narrow(0, first, count);
      const auto label = labels.narrow(0, first, count).clamp_min(0).unsqueeze(1);
      const auto weight = weights.narrow(0, first, count).unsqueeze(1);
      auto scores = scores_of(state, vectors);
      const auto total = scores.logsumexp(1, /*keepdim=*/true);
      loss += ((total - scores.gather(1, label)) * weight).sum();
      // The probabilities, less 1 for what follows.
      scores.sub_(total)
          .exp_()
          .scatter_add_(1, label, torch::full_like(total, -1))
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
            {}};
  }
};

LanguageModel& language_model(torch::nn::Module& model) {
  return dynamic_cast<LanguageModel&>(model);
}

}  // namespace

torch::Tensor next_piece_loss(const torch::Tensor& states, const torch::Tensor& vectors,
                              const torch::Tensor& labels, const torch::Tensor& weights) {
  return Loss::apply(states, vectors, labels, weights);
}

torch::Tensor NextPiece::loss(torch::nn::Module& model, const Batch& batch) const {
  auto& writer = language_model(model);
  const auto is_label = batch.labels.ne(kNoToken).to(torch::kFloat32);
  const auto counts = is_label.sum(1, /*keepdim=*/true).clamp_min(1);
  const auto weights = (is_label / (counts * batch.size())).flatten();
  return writer.read(batch.inputs[0],
                     [&](const torch::Tensor& states, const torch::Tensor& vectors) {
                       return next_piece_loss(states, vectors, batch.labels.flatten(), weights);
                     });
}

Tally NextPiece::measure(torch::nn::Module& model, const Batch& batch) const {
  const auto labels = batch.labels.flatten();
  Sum loss;
  Sum right;
  const auto measure_part = [&](const torch::Tensor& scores, const torch::Tensor& label) {
    const auto is_label = label.ne(kNoToken);
    const auto entropies =
        scores.logsumexp(1) - scores.gather(1, label.clamp_min(0).unsqueeze(1)).squeeze(1);
    loss.sum += entropies.masked_fill(is_label.logical_not(), 0).sum().item<double>();
    loss.count += is_label.sum().item<double>();
    right.sum += scores.argmax(1).eq(label).sum().item<double>();
  };
  const auto measure_all = [&](const torch::Tensor& states, const torch::Tensor& vectors) {
    in_parts(states.size(0), vectors.size(0), [&](std::int64_t first, std::int64_t count) {
      measure_part(scores_of(states.narrow(0, first, count), vectors),
                   labels.narrow(0, first, count));
    });
    return torch::Tensor();
  };
  language_model(model).read(batch.inputs[0], measure_all);
  right.count = loss.count;
  return {.loss = loss, .metrics = {loss, right}};
}

}  // namespace sullae::train
