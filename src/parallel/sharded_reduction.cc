#include "parallel/sharded_reduction.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "parallel/flat.h"
#include "sullae/adapter.h"
#include "torch/tensor_type.h"

namespace sullae {
namespace {

constexpr std::chrono::milliseconds kLookPeriod{100};

// Memory of its own bucket, or of whoever has it in turn.
class ShardedReduction final : public BucketReduction {
 public:
  ShardedReduction(const ReductionRequest& request, ShardedBucket& bucket,
                   const ShardExchange& exchange, GradientBuffers* buffers)
      : bucket_(bucket),
        exchange_(exchange),
        buffers_(buffers),
        op_(request.options.op),
        ranks_(request.world.size()),
        starts_(starts_of(bucket.sizes, bucket.element_bytes())) {
    if (buffers_ == nullptr) own_ = exchange.allocate_sums(bytes());
    flags_memory_ = request.world.allocate_shared(bucket.plan.flags() * sizeof(float));
    flags_ = torch::from_blob(flags_memory_.get(), {length(bucket.plan.flags())}, torch::kFloat32);
    step_flags_.presence.resize(bucket.parameters.size(), Presence::everywhere);
  }

  // The pool may still have the turn.
  ~ShardedReduction() override {
    if (turn_) turn_->settle();
  }
  ShardedReduction(const ShardedReduction&) = delete;
  ShardedReduction& operator=(const ShardedReduction&) = delete;

  // The parameter's gradient is not needed any more.
  void take(std::size_t place) override {
    const torch::Tensor& parameter = bucket_.parameters[place].tensor;
    torch::Tensor& gradient = parameter.mutable_grad();
    if (gradient.defined() && gradient.is_sparse())
      throw InputError(fmt::format(
          "ShardedOptimizer: parameter '{}' has a sparse gradient, which is not divided among "
          "ranks: make the embedding with sparse(false), or use DistributedOptimizer",
          bucket_.parameters[place].name));
    if (!buffer_) buffer_ = buffers_ == nullptr ? own_ : buffers_->take(bytes());
    torch::Tensor to = at_place(place);
    if (gradient.defined()) {
      to.copy_(gradient);
    } else {
      to.zero_();
    }
    flags_[static_cast<std::int64_t>(place)].fill_(gradient.defined() ? 1 : 0);
    gradient = torch::Tensor();
  }

  void start(bool stepping) override {
    flags_[length(bucket_.plan.flags()) - 1].fill_(stepping ? 1 : 0);
    if (!exchange_.is_in_stream()) {
      if (buffers_ != nullptr && buffer_) buffers_->starts();
      return;
    }
    turn_ = exchange_.start_reduce(buffer_.get(), ranges(), op_);
    if (buffers_ != nullptr && buffer_) buffers_->let_go(std::exchange(buffer_, {}), turn_);
  }

  // On a GPU of the flags alone, which tell of ranks that are gone.
  void reduce(Communicator& communicator) override {
    try {
      if (!exchange_.is_in_stream())
        ShardExchange::reduce(communicator, buffer_.get(), ranges(), op_);
      communicator.allreduce(flags_.data_ptr(), flags_.data_ptr(), bucket_.plan.flags(),
                             DataType::float32, op_);
    } catch (...) {  // rethrown
      give_back();
      throw;
    }
    give_back();
  }

  void finish() override {
    if (turn_) turn_->await();
    step_flags_.read(flags_, op_, ranks_);
  }

  // To the piece that this rank has of it, if any.
  void give(std::size_t place) override {
    bucket_.parameters[place].tensor.mutable_grad() = torch::Tensor();
    const auto piece = std::ranges::find(bucket_.pieces, place, &ShardPiece::place);
    if (piece == bucket_.pieces.end()) return;
    torch::Tensor& updated =
        bucket_.updated[static_cast<std::size_t>(piece - bucket_.pieces.begin())];
    if (step_flags_.presence[place] == Presence::nowhere) {
      updated.mutable_grad() = torch::Tensor();
      return;
    }
    updated.mutable_grad() = bucket_.gradient.narrow(0, length(piece->at), updated.numel())
                                 .view(updated.sizes())
                                 .to(updated.device(), updated.scalar_type());
  }

  bool holds_gradient(std::size_t) const override { return false; }
  void clear(std::size_t) override {}
  const StepFlags* flags() const override { return &step_flags_; }

 private:
  std::size_t bytes() const { return bucket_.plan.gradient_elements * bucket_.element_bytes(); }
  std::vector<ShardRange> ranges() const {
    return {{.shard = bucket_.gradient, .counts = &bucket_.counts}};
  }

  void give_back() {
    if (buffers_ != nullptr && buffer_) buffers_->give_back(std::exchange(buffer_, {}));
  }

  torch::Tensor at_place(std::size_t place) const {
    const torch::Tensor& parameter = bucket_.parameters[place].tensor;
    return torch::from_blob(buffer_.get() + starts_[place] * bucket_.element_bytes(),
                            parameter.sizes(), parameter.strides(),
                            parameter.options().device(exchange_.reduces_on()));
  }

  ShardedBucket& bucket_;
  const ShardExchange& exchange_;
  GradientBuffers* buffers_;
  ReduceOp op_;
  int ranks_;
  std::vector<std::size_t> starts_;
  std::shared_ptr<std::byte> own_;
  std::shared_ptr<std::byte> buffer_;  // from the first gradient to the end of the reduction
  std::shared_ptr<const DeviceTurn> turn_;
  std::shared_ptr<std::byte> flags_memory_;
  torch::Tensor flags_;
  StepFlags step_flags_;
};

}  // namespace

GradientBuffers::GradientBuffers(std::size_t count, std::size_t bytes, const World& world,
                                 const ShardExchange& exchange)
    : world_(world), exchange_(exchange), count_(count), bytes_(bytes) {
  if (exchange.is_in_stream()) return;
  for (std::size_t i = 0; i < count; ++i) {
    free_.push_back(exchange.allocate_sums(bytes));
    shared_.push_back(free_.back().get());
  }
}

GradientBuffers::~GradientBuffers() {
  for (const LetGo& one : let_go_) {
    if (one.last) one.last->settle();
  }
}

std::shared_ptr<std::byte> GradientBuffers::take(std::size_t bytes) {
  std::unique_lock lock(mutex_);
  if (exchange_.is_in_stream()) {
    // Memory that goes after this stream has waited may be taken again at once.
    for (; let_go_.size() >= count_; let_go_.pop_front()) {
      if (let_go_.front().last) let_go_.front().last->await();
    }
    return exchange_.allocate_sums_alone(bytes);
  }
  // Of a world that has failed nothing comes back.
  while (free_.empty() && under_way_ > 0 && !AdapterView(world_).has_failed())
    changed_.wait_for(lock, kLookPeriod);
  if (free_.empty()) return exchange_.allocate_sums_alone(bytes_);
  auto buffer = std::move(free_.back());
  free_.pop_back();
  return buffer;
}

void GradientBuffers::starts() {
  const std::lock_guard lock(mutex_);
  ++under_way_;
}

void GradientBuffers::give_back(std::shared_ptr<std::byte> buffer) {
  const std::lock_guard lock(mutex_);
  --under_way_;
  if (std::ranges::find(shared_, buffer.get()) != shared_.end()) free_.push_back(std::move(buffer));
  changed_.notify_all();
}

void GradientBuffers::let_go(std::shared_ptr<std::byte> buffer,
                             std::shared_ptr<const DeviceTurn> last) {
  const std::lock_guard lock(mutex_);
  let_go_.push_back({.buffer = std::move(buffer), .last = std::move(last)});
}

std::unique_ptr<BucketReduction> make_sharded_reduction(const ReductionRequest& request,
                                                        ShardedBucket& bucket,
                                                        const ShardExchange& exchange,
                                                        GradientBuffers* buffers) {
  return std::make_unique<ShardedReduction>(request, bucket, exchange, buffers);
}

}  // namespace sullae
