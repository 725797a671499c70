#include "parallel/sharded_parameters.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "collective/counts.h"
#include "parallel/alone.h"
#include "parallel/flat.h"
#include "parallel/malloc_limits.h"

namespace sullae {
namespace {

constexpr const char* kShardedOptimizer = "ShardedOptimizer";
// Buffers for gradients on their way, in stage 2: one that fills, one that is reduced, and two for
// gradients that come in another order.
constexpr std::size_t kReduceBuffers = 4;

DistributedOptimizerOptions gradient_options(const ShardedOptimizerOptions& options) {
  return {.backward_passes_per_step = options.backward_passes_per_step,
          .bucket_bytes = options.bucket_bytes,
          .overlap = options.overlap,
          .after_backward = false};
}

// What all ranks have alike.
std::string text_of(const ShardedOptimizerOptions& options, torch::Device device) {
  return fmt::format(
      "stage={} backward_passes_per_step={} bucket_bytes={} own_buckets=[{}] device={}",
      options.stage, options.backward_passes_per_step, options.bucket_bytes,
      fmt::join(options.own_buckets, ", "),
      c10::DeviceTypeName(device.type(), /*lower_case=*/true));
}

void check(const ShardedOptimizerOptions& options) {
  if (options.stage != 1 && options.stage != 2)
    throw InputError(
        fmt::format("{}: stage {}, expected 1 or 2", kShardedOptimizer, options.stage));
  if (options.backward_passes_per_step < 1)
    throw InputError(
        fmt::format("{}: backward_passes_per_step must be at least 1", kShardedOptimizer));
}

}  // namespace

ShardedParameters::ShardedParameters(
    const torch::OrderedDict<std::string, torch::Tensor>& parameters,
    const ShardedOptimizerOptions& options, const World& world)
    : options_(options), world_(world) {
  check(options_);
  auto found = trained_of(parameters, kShardedOptimizer);
  parameters_ = std::move(found.trained);
  frozen_ = std::move(found.frozen);
  if (parameters_.empty())
    throw InputError(fmt::format("{}: no parameter requires gradients", kShardedOptimizer));
  for (const auto& item : each_once(parameters)) {
    // A frozen one that has gaps goes as buffers do.
    if (!item.value().requires_grad() && !item.value().is_non_overlapping_and_dense()) continue;
    all_.push_back({.name = item.key(),
                    .tensor = item.value(),
                    .alone = options_.own_buckets.contains(item.key())});
    const auto trained = std::ranges::find_if(
        parameters_, [&](const auto& one) { return one.tensor.is_same(item.value()); });
    numbers_.push_back(trained == parameters_.end()
                           ? std::nullopt
                           : std::optional<std::size_t>(trained - parameters_.begin()));
  }
  check_divisible_parameters(parameters_, kShardedOptimizer);
  for (PlannedParameter& parameter : parameters_)
    parameter.alone = options_.own_buckets.contains(parameter.name);
  if (world_.size() > 1)
    check_same_parameters(all_, text_of(options_, parameters_.front().tensor.device()), world_,
                          kShardedOptimizer);
  pieces_.resize(parameters_.size());
  place_.resize(parameters_.size());
  reducer_ = GradientReducer::make(
      parameters_, gradient_options(options_), world_,
      {.make = [this](const ReductionRequest& request) { return make_reduction(request); },
       .adds = false});
  if (world_.size() == 1) {
    make_alone();
    return;
  }
  const torch::NoGradGuard guard;
  // Each would go on with its own part of what differed.
  for (const PlannedParameter& parameter : all_) {
    torch::Tensor values = parameter.tensor.detach();
    broadcast(values, 0, world_);
  }
  limit_malloc();
  exchange_.emplace(world_, parameters_.front().tensor.device());
  reducer_->plan_ahead();
}

ShardedParameters::~ShardedParameters() = default;

// What is updated are the parameters themselves, or their masters.
void ShardedParameters::make_alone() {
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    pieces_[i] = updated_alone(parameters_[i].tensor, parameters_[i].tensor);
}

std::unique_ptr<BucketReduction> ShardedParameters::make_reduction(
    const ReductionRequest& request) {
  auto bucket = std::make_unique<ShardedBucket>();
  bucket->plan = request.plan;
  bucket->parameters = request.parameters;
  for (std::size_t place = 0; place < request.parameters.size(); ++place) {
    bucket->sizes.push_back(static_cast<std::size_t>(request.parameters[place].tensor.numel()));
    place_[request.plan.parameters[place]] = {buckets_.size(), place};
  }
  bucket->counts =
      shard_counts(bucket->plan.gradient_elements, bucket->element_bytes(), world_.size());
  move_in(*bucket);
  make_pieces(*bucket);
  if (options_.stage == 2 && !buffers_) {
    // A parameter that is larger than a bucket has one of its own.
    std::size_t largest = options_.bucket_bytes;
    for (const PlannedParameter& parameter : parameters_)
      largest =
          std::max(largest, aligned_elements(parameter.tensor) * parameter.tensor.element_size());
    buffers_.emplace(kReduceBuffers, largest, world_, *exchange_);
  }
  buckets_.push_back(std::move(bucket));
  return make_sharded_reduction(request, *buckets_.back(), *exchange_,
                                buffers_ ? &*buffers_ : nullptr);
}

void ShardedParameters::move_in(ShardedBucket& bucket) {
  const auto bytes = bucket.plan.gradient_elements * bucket.element_bytes();
  bucket.memory = exchange_->allocate(std::max<std::size_t>(bytes, 64));
  bucket.weights = torch::from_blob(
      bucket.memory.here.get(), {length(bucket.plan.gradient_elements)},
      [memory = bucket.memory.here](void*) {},
      torch::TensorOptions(bucket.plan.type).device(bucket.memory.device));
  const auto starts = starts_of(bucket.sizes, bucket.element_bytes());
  for (std::size_t place = 0; place < bucket.parameters.size(); ++place) {
    const torch::Tensor& parameter = bucket.parameters[place].tensor;
    const torch::Tensor room = bucket.weights.narrow(0, length(starts[place]), parameter.numel());
    room.copy_(flat_of(parameter));
    // A tensor of its own: views share a count of changes.
    torch::Tensor inside = torch::from_blob(
        room.data_ptr(), parameter.sizes(), parameter.strides(),
        [memory = bucket.memory.here](void*) {}, parameter.options());
    parameter.set_data(inside);
  }
}

void ShardedParameters::make_pieces(ShardedBucket& bucket) {
  const auto offsets = offsets_of(bucket.counts);
  const auto own = static_cast<std::size_t>(world_.rank());
  bucket.shard = bucket.weights.narrow(0, length(offsets[own]), length(bucket.counts[own]));
  bucket.gradient =
      torch::zeros(bucket.shard.sizes(), bucket.shard.options().device(exchange_->reduces_on()));
  bucket.pieces = pieces_of(bucket.sizes, bucket.element_bytes(), offsets[own], offsets[own + 1]);
  for (const ShardPiece& piece : bucket.pieces) {
    const torch::Tensor& parameter = bucket.parameters[piece.place].tensor;
    std::vector<std::int64_t> shape(static_cast<std::size_t>(parameter.dim()), 1);
    if (!shape.empty()) shape.back() = length(piece.to - piece.from);
    torch::Tensor updated =
        bucket.shard.narrow(0, length(piece.at), length(piece.to - piece.from)).view(shape);
    // Detached: what it shares its memory with is another leaf.
    updated = updated.detach().to(updated_type(updated.scalar_type())).set_requires_grad(true);
    bucket.updated.push_back(updated);
    pieces_[bucket.plan.parameters[piece.place]] = updated;
  }
}

std::vector<Part> ShardedParameters::parts_of(std::size_t parameter) const {
  const auto trained = numbers_[parameter];
  if (world_.size() == 1 || !trained) return of_first(all_[parameter].tensor);
  const auto& [number, place] = place_[*trained];
  const ShardedBucket& bucket = *buckets_[number];
  return parts_at(place, bucket.sizes, bucket.element_bytes(), bucket.counts);
}

bool ShardedParameters::is_whole(std::size_t parameter) const {
  const auto type = all_[parameter].tensor.scalar_type();
  return !numbers_[parameter] || updated_type(type) == type;
}

const torch::Tensor& ShardedParameters::piece_of(std::size_t parameter) const {
  static const torch::Tensor kNone;
  const auto trained = numbers_[parameter];
  return trained ? pieces_[*trained] : kNone;
}

void ShardedParameters::reduce() {
  check_still_frozen(frozen_, kShardedOptimizer);
  reducer_->synchronize();
  // With others the reductions have given them.
  if (world_.size() == 1) give_gradients_alone(parameters_, pieces_);
}

void ShardedParameters::clear_gradients() {
  reducer_->zero_grad();
  for (const torch::Tensor& piece : pieces_) {
    if (piece.defined()) piece.mutable_grad() = torch::Tensor();
  }
}

void ShardedParameters::publish() {
  const torch::NoGradGuard guard;
  reducer_->begin_step();
  if (world_.size() == 1) return publish_alone(parameters_, pieces_);
  std::vector<PendingGather> pending;
  for (std::size_t number = 0; number < buckets_.size(); ++number) {
    ShardedBucket& bucket = *buckets_[number];
    if (updated_type(bucket.plan.type) != bucket.plan.type) {
      for (std::size_t i = 0; i < bucket.pieces.size(); ++i) {
        const ShardPiece& piece = bucket.pieces[i];
        bucket.shard.narrow(0, length(piece.at), length(piece.to - piece.from))
            .copy_(bucket.updated[i].flatten());
      }
    }
    pending.push_back(exchange_->gather(bucket.memory,
                                        {{.shard = bucket.shard, .counts = &bucket.counts}},
                                        fmt::format("parameters of bucket {}", number)));
  }
  for (PendingGather& gather : pending) gather.wait();
  exchange_->check();
  // What was computed with the old values is not to be computed backward with these.
  for (const PlannedParameter& parameter : parameters_)
    parameter.tensor.unsafeGetTensorImpl()->bump_version();
}

void ShardedParameters::take_weights(
    const torch::OrderedDict<std::string, torch::Tensor>& weights) {
  const torch::NoGradGuard guard;
  for (std::size_t i = 0; i < all_.size(); ++i) {
    const torch::Tensor* const whole = weights.find(all_[i].name);
    if (whole != nullptr) copy_parts(*this, i, *whole);
  }
}

}  // namespace sullae
