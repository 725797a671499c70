// What GradientReducer does with what it learns about gradients: its plan, and the path through it.
#include <algorithm>
#include <utility>

#include "torch/gradient_reducer.h"
#include "torch/sparse_rows.h"

namespace sullae {

void GradientReducer::plan_ahead() {
  for (std::size_t i = parameters_.size(); i > 0; --i)
    seen_.ready_order.push_back(static_cast<std::int64_t>(i - 1));
  std::ranges::fill(seen_.kinds, FirstStep::dense);
  plan();
}

// By the first step, which has run backward without overlap.
void GradientReducer::learn_kinds() {
  for (std::size_t i = 0; i < parameters_.size(); ++i) learn_kind(i);
}

void GradientReducer::learn_kind(std::size_t index) {
  if (seen_.kinds[index] != FirstStep::none || !gradient(index).defined()) return;
  seen_.kinds[index] = is_row_sparse(gradient(index)) ? FirstStep::sparse : FirstStep::dense;
}

void GradientReducer::plan() {
  agreed_ = agree(seen_, world_);
  make_buckets();
}

// On what all ranks have agreed.
void GradientReducer::make_buckets() {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const bool sparse = agreed_.kinds[i] == FirstStep::sparse && options_.op != ReduceOp::adasum;
    parameters_[i].made_dense = sparse && options_.sparse_as_dense;
    parameters_[i].sparse = sparse && !options_.sparse_as_dense;
  }
  const std::vector<std::size_t> order(agreed_.ready_order.begin(), agreed_.ready_order.end());
  auto plans = plan_buckets(parameters_, order, options_.bucket_bytes);
  const std::uint64_t plan_hash = hash_of(plans);
  for (std::size_t b = 0; b < plans.size(); ++b) {
    for (std::size_t place = 0; place < plans[b].parameters.size(); ++place) {
      ParameterState& state = states_[plans[b].parameters[place]];
      state.bucket = b;
      state.place = place;
    }
    PlannedOptions label{.name = name_of(plans[b], b, number_, parameters_), .plan = plan_hash};
    buckets_.push_back(std::make_unique<GradientBucket>(std::move(plans[b]), parameters_, options_,
                                                        std::move(label), world_, way_.make));
  }
}

// Of what nobody had a gradient of nobody knew whether it is sparse, and it went with the dense
// ones. All ranks have the same flags, and so come here in the same step.
void GradientReducer::plan_again() {
  if (!has_late_gradients()) return;
  FirstStep agreed = agree(seen_, world_);
  std::vector<std::size_t> late;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (agreed.kinds[i] == FirstStep::sparse && agreed_.kinds[i] != FirstStep::sparse)
      late.push_back(i);
  }
  agreed_ = std::move(agreed);
  if (late.empty()) return;
  buckets_.clear();
  path_ = {};
  make_buckets();
  // As it will be from now on.
  for (const std::size_t i : late) {
    if (parameters_[i].sparse && gradient(i).defined())
      parameters_[i].tensor.mutable_grad() = gradient(i).to_sparse(1);
  }
}

bool GradientReducer::has_late_gradients() const {
  return std::ranges::any_of(buckets_, [this](const auto& bucket) {
    const StepFlags* flags = bucket->flags();
    if (flags == nullptr) return false;
    const auto& members = bucket->members();
    for (std::size_t place = 0; place < members.size(); ++place) {
      if (agreed_.kinds[members[place]] == FirstStep::none &&
          flags->presence[place] != Presence::nowhere)
        return true;
    }
    return false;
  });
}

void GradientReducer::choose_path() {
  std::vector<Presence> presence;
  for (const auto& bucket : buckets_) {
    if (const StepFlags* flags = bucket->flags())
      presence.insert(presence.end(), flags->presence.begin(), flags->presence.end());
  }
  path_.step(std::move(presence), anyone_stepped());
}

bool GradientReducer::anyone_stepped() const {
  return std::ranges::any_of(buckets_, [](const auto& bucket) {
    const StepFlags* flags = bucket->flags();
    return flags != nullptr && flags->anyone_stepped;
  });
}

}  // namespace sullae
