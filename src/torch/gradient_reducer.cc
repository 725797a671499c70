#include "torch/gradient_reducer.h"

#include <fmt/format.h>
#include <torch/csrc/autograd/engine.h>

#include <algorithm>
#include <utility>

#include "sullae/adapter.h"

namespace sullae {
GradientReducer::GradientReducer(std::vector<PlannedParameter> parameters,
                                 const DistributedOptimizerOptions& options, const World& world,
                                 Way way)
    : options_(options),
      way_(std::move(way)),
      world_(world),
      number_(AdapterView(world).next_number()),
      parameters_(std::move(parameters)),
      states_(parameters_.size()),
      kept_(parameters_.size()) {
  seen_.kinds.resize(parameters_.size(), FirstStep::none);
}

// A world of one listens too: what is an error on several ranks is one there.
std::shared_ptr<GradientReducer> GradientReducer::make(std::vector<PlannedParameter> parameters,
                                                       const DistributedOptimizerOptions& options,
                                                       const World& world, Way way) {
  const std::shared_ptr<GradientReducer> reducer(
      new GradientReducer(std::move(parameters), options, world, std::move(way)));
  for (std::size_t i = 0; i < reducer->parameters_.size(); ++i)
    reducer->accumulators_.push_back(listen(reducer, reducer->parameters_[i].tensor, i));
  return reducer;
}

void GradientReducer::begin_step() {
  synchronized_ = false;
  backward_passes_ = 0;
  waits_for_backward_.reset();
}

bool GradientReducer::has_seen_gradients() const {
  return synchronized_ ||
         std::ranges::any_of(states_, [](const ParameterState& state) { return state.passes > 0; });
}

// An exception that autograd carries out of a backward loses its type on the way to Python.
void GradientReducer::synchronize_after_backward() {
  if (!waits_for_backward_.expired()) return;
  const auto waiting = std::make_shared<char>();
  waits_for_backward_ = waiting;
  torch::autograd::Engine::get_default_engine().queue_callback([self = weak_from_this(), waiting] {
    const auto reducer = self.lock();
    if (!reducer || reducer->waits_for_backward_.lock() != waiting) return;
    reducer->waits_for_backward_.reset();
    if (++reducer->backward_passes_ < reducer->options_.backward_passes_per_step) return;
    const Interruptible hears(reducer->interruption_);
    try {
      reducer->synchronize();
    } catch (...) {  // thrown by the next synchronize()
      reducer->error_ = std::current_exception();
    }
  });
}

void GradientReducer::synchronize() {
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  if (synchronized_) return;
  const torch::NoGradGuard guard;
  settle();
  if (world_.size() > 1) reduce();
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    ParameterState& state = states_[i];
    if (parameters_[i].made_dense && gradient(i).defined())
      parameters_[i].tensor.mutable_grad() = gradient(i).to_sparse(1);
    state.passes = 0;
    state.taken = false;
    state.reduced = gradient(i).defined();
    state.mark = GradientMark(gradient(i));
  }
  synchronized_ = true;
}

// What was started for gradients that are thrown away comes to its end first: it reads their
// memory.
void GradientReducer::zero_grad() {
  for (std::size_t b = 0; b < buckets_.size(); ++b) reopen(b);
  for (ParameterState& state : states_) {
    state.passes = 0;
    state.reduced = false;
  }
  if (buckets_.empty()) seen_.ready_order.clear();
  for (const PlannedParameter& parameter : parameters_)
    parameter.tensor.mutable_grad() = torch::Tensor();
  backward_start_.reset();
  begin_step();
}

// More backward passes than were planned, and passes after gradients were thrown away, are right as
// well: what is under way comes to its end, and the bucket is reduced once more.
void GradientReducer::before_gradient(std::size_t index) {
  // Who calls the optimizer's own step hears of it here, but for Python, on whose way an exception
  // loses its type.
  if (error_ && !interruption_) std::rethrow_exception(std::exchange(error_, nullptr));
  const torch::NoGradGuard guard;
  ParameterState& state = states_[index];
  // Nor does that say that a step was made: passes are counted anew where nothing is left of those
  // before.
  if (backward_passes_ > 0 && waits_for_backward_.expired() && is_all_new()) backward_passes_ = 0;
  check_can_add(index);
  const bool cleared = is_cleared(index);
  if (state.taken) reopen(state.bucket);
  if (cleared) {
    state.passes = 0;
    state.reduced = false;
  } else if (options_.op == ReduceOp::adasum &&
             (state.reduced || state.passes >= options_.backward_passes_per_step)) {
    throw_late(index, "combined, which op adasum cannot add to: call zero_grad()");
  }
  share_out(index);
  state.fresh = !gradient(index).defined();
}

void GradientReducer::on_gradient(std::size_t index) {
  ParameterState& state = states_[index];
  synchronized_ = false;
  if (options_.after_backward) synchronize_after_backward();
  if (!backward_start_) backward_start_ = std::chrono::steady_clock::now();
  ++state.passes;
  const torch::NoGradGuard guard;
  if (world_.size() == 1 && state.fresh) kept_.keep(index, parameters_[index].tensor);
  state.mark = GradientMark(gradient(index));
  if (world_.size() == 1) return;
  if (buckets_.empty()) {
    const auto number = static_cast<std::int64_t>(index);
    if (std::ranges::find(seen_.ready_order, number) == seen_.ready_order.end())
      seen_.ready_order.push_back(number);
    return;
  }
  if (state.passes < options_.backward_passes_per_step) return;
  if (!options_.overlap)
    return;  // gradients may be written to until synchronize(), which takes them
  take(index);
  if (!path_.is_negotiated()) {
    start_in_order();
  } else if (GradientBucket& bucket = *buckets_[state.bucket];
             bucket.full() && bucket.is_single_allreduce()) {
    bucket.start_negotiated(stepping_);
  }
}

void GradientReducer::reduce() {
  if (backward_start_) world_.mark("BACKWARD", "from the first gradient on", *backward_start_);
  if (buckets_.empty()) {
    learn_kinds();
    plan();
    warn_where_unequal(parameters_, world_);
  }
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    // What backward did not reach, or reached fewer times than planned.
    if (!states_[i].taken) take(i);
  }
  start_in_order();
  const auto waiting = std::chrono::steady_clock::now();
  for (const auto& bucket : buckets_) bucket->finish();
  world_.mark("WAIT", "for gradients", waiting);
  backward_start_.reset();
  next_start_ = 0;
  choose_path();
  plan_again();
}

// By a zero_grad(), of ours or of libtorch, which may fill with zeros: who writes to a gradient and
// then runs backward again has cleared it.
bool GradientReducer::is_cleared(std::size_t index) const {
  if (!gradient(index).defined()) return true;
  const ParameterState& state = states_[index];
  const Change change = state.mark.change(gradient(index));
  if (change == Change::none) return false;
  if (state.passes > 0 && change == Change::replaced && options_.overlap) throw_changed(index);
  if (state.passes > 0) return options_.overlap;
  // After a step it may have been clipped; only adasum minds.
  return options_.op == ReduceOp::adasum && state.reduced &&
         gradient(index).count_nonzero().item<std::int64_t>() == 0;
}

bool GradientReducer::is_all_new() const {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (gradient(i).defined() && states_[i].mark.change(gradient(i)) == Change::none) return false;
  }
  return true;
}

// A gradient that is added to has been agreed on already: in the next sum it counts once.
void GradientReducer::share_out(std::size_t index) {
  ParameterState& state = states_[index];
  const bool counts_once = options_.op == ReduceOp::sum && world_.rank() != 0;
  if (std::exchange(state.reduced, false) && counts_once && gradient(index).defined()) {
    if (gradient(index).is_sparse()) {
      parameters_[index].tensor.mutable_grad() = torch::Tensor();
    } else {
      parameters_[index].tensor.mutable_grad().zero_();
    }
  }
}

void GradientReducer::take(std::size_t index) {
  ParameterState& state = states_[index];
  share_out(index);
  learn_kind(index);
  buckets_[state.bucket]->take(state.place);
  state.taken = true;
  state.mark = GradientMark(gradient(index));
}

// Gives the bucket's gradients back as they would be after a step, but those that were cleared
// since.
void GradientReducer::reopen(std::size_t number) {
  GradientBucket& bucket = *buckets_[number];
  const auto& members = bucket.members();
  std::vector<bool> kept(members.size());
  for (std::size_t place = 0; place < members.size(); ++place) {
    const std::size_t index = members[place];
    kept[place] = states_[index].mark.change(gradient(index)) == Change::none;
  }
  const bool reduced = bucket.started();
  bucket.reopen(kept);
  for (std::size_t place = 0; place < members.size(); ++place) {
    ParameterState& state = states_[members[place]];
    state.taken = false;
    if (reduced && kept[place])
      state.reduced = bucket.holds_gradient(place) && gradient(members[place]).defined();
    state.mark = GradientMark(gradient(members[place]));
  }
  next_start_ = std::min(next_start_, number);
}

// What was changed since backward: gradients that were removed are reduced as such; others cannot
// be told from what the reduction has written, which may be under way where it overlaps with
// backward.
void GradientReducer::settle() {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    ParameterState& state = states_[i];
    if (state.passes == 0 && !state.taken) continue;
    switch (state.mark.change(gradient(i))) {
      case Change::none:
        break;
      case Change::removed:
        if (state.taken) reopen(state.bucket);
        break;
      case Change::replaced:
      case Change::written:
        if (options_.overlap) throw_changed(i);
        if (state.taken) reopen(state.bucket);
    }
  }
}

void GradientReducer::throw_changed(std::size_t index) const {
  throw Error(fmt::format(
      "the gradient of parameter '{}' was changed between backward() and synchronize(), while "
      "ranks may have been reducing it: call synchronize() first, then clip or change gradients, "
      "then step(); call DistributedOptimizer::zero_grad() to throw them away",
      parameters_[index].name));
}

void GradientReducer::check_can_add(std::size_t index) const {
  if (way_.adds) return;
  if (!synchronized_ && states_[index].passes < options_.backward_passes_per_step) return;
  throw_late(index, "divided among the ranks: call step() or zero_grad()");
}

// `what` was done with gradients, and the way out.
void GradientReducer::throw_late(std::size_t index, const char* what) const {
  const int passes = options_.backward_passes_per_step;
  throw Error(
      fmt::format("parameter '{}' got another gradient after those of {} backward pass{} were {} "
                  "before, or set "
                  "backward_passes_per_step",
                  parameters_[index].name, passes, passes == 1 ? "" : "es", what));
}

// In the plan's order on every rank, whatever order this rank's gradients came in. On the
// negotiated path this is the end of a step: what could not start by itself does here.
void GradientReducer::start_in_order() {
  for (; next_start_ < buckets_.size() && buckets_[next_start_]->full(); ++next_start_) {
    GradientBucket& bucket = *buckets_[next_start_];
    if (bucket.started()) continue;
    if (path_.is_negotiated() && bucket.is_single_allreduce()) {
      bucket.start_negotiated(stepping_);
    } else {
      bucket.start_planned(stepping_);
    }
  }
}

}  // namespace sullae
