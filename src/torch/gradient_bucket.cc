#include "torch/gradient_bucket.h"

#include <fmt/format.h>

#include <chrono>
#include <thread>
#include <utility>

namespace sullae {
namespace {

std::unique_ptr<BucketReduction> reduction_of(PlannedBucket plan,
                                              const std::vector<PlannedParameter>& parameters,
                                              const DistributedOptimizerOptions& options,
                                              const World& world, const ReductionMaker& maker) {
  std::vector<PlannedParameter> members;
  for (const std::size_t index : plan.parameters) members.push_back(parameters[index]);
  return maker({std::move(plan), std::move(members), options, world});
}

}  // namespace

GradientBucket::GradientBucket(PlannedBucket plan, const std::vector<PlannedParameter>& parameters,
                               const DistributedOptimizerOptions& options, PlannedOptions label,
                               const World& world, const ReductionMaker& maker)
    : members_(plan.parameters),
      world_(world),
      label_(std::move(label)),
      missing_(members_.size()) {
  if (!plan.sparse) label_.bytes = plan.bytes();
  reduction_ = reduction_of(std::move(plan), parameters, options, world, maker);
}

GradientBucket::~GradientBucket() {
  constexpr std::chrono::milliseconds kNap{1};
  while (started_ && !handle_.done()) std::this_thread::sleep_for(kNap);
}

void GradientBucket::take(std::size_t place) {
  --missing_;
  reduction_->take(place);
}

void GradientBucket::start_planned(bool stepping) {
  started_ = true;
  reduction_->start(stepping);
  handle_ = AdapterView(world_).submit(
      [this](Communicator& communicator) { reduction_->reduce(communicator); }, label_);
}

void GradientBucket::start_negotiated(bool stepping) {
  started_ = true;
  reduction_->start(stepping);
  const auto all = reduction_->single_allreduce().value();
  handle_ =
      world_.allreduce_async(all.data, all.data, all.count, all.type, all.op,
                             // A rank that has joined follows by DistributedOptimizer::join().
                             {.name = label_.name, .shape = described_turn(), .joined_too = true});
}

void GradientBucket::wait_for_reduction() {
  try {
    handle_.wait();
  } catch (const MismatchError& error) {
    started_ = false;
    throw MismatchError(fmt::format(
        "{}; ranks must step the same optimizers, and run backward() and clear gradients equally "
        "often in a step",
        error.what()));
  }
  reduction_->finish();
  started_ = false;
}

// Compared between ranks, as the label of the planned path is.
std::string GradientBucket::described_turn() const {
  return label_.turn == 0 ? "" : fmt::format("once more ({})", label_.turn);
}

void GradientBucket::reopen(const std::vector<bool>& kept) {
  // Also a pass that other ranks may have reduced: this one's next must not be paired with it.
  if (missing_ < members_.size()) ++label_.turn;
  missing_ = members_.size();
  if (!started_) return;
  wait_for_reduction();
  for (std::size_t place = 0; place < members_.size(); ++place) {
    if (!holds_gradient(place)) continue;
    if (kept[place]) {
      reduction_->give(place);
    } else {
      reduction_->clear(place);
    }
  }
}

void GradientBucket::finish() {
  if (!started_) return;  // a wait for others was interrupted after this one's
  wait_for_reduction();
  missing_ = members_.size();
  label_.turn = 0;
  for (std::size_t place = 0; place < members_.size(); ++place) reduction_->give(place);
}

}  // namespace sullae
