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
  ShardedReduction(const ReductionRequest& request, ShardedBucket& bucket, GradientBuffers* buffers)
      : bucket_(bucket),
        buffers_(buffers),
        op_(request.options.op),
        ranks_(request.world.size()),
        starts_(starts_of(bucket.sizes, bucket.element_bytes())) {
    if (buffers_ == nullptr) own_ = request.world.allocate_shared(bytes());
    flags_memory_ = request.world.allocate_shared(bucket.plan.flags() * sizeof(float));
    flags_ = torch::from_blob(flags_memory_.get(), {length(bucket.plan.flags())}, torch::kFloat32);
    step_flags_.presence.resize(bucket.parameters.size(), Presence::everywhere);
  }

  // The parameter's gradient is not needed any more.
  void take(std::size_t place) override {
    const torch::Tensor& parameter = bucket_.parameters[place].tensor;
    torch::Tensor& gradient = parameter.mutable_grad();
    if (gradient.defined() && gradient.is_sparse())
      throw InputError(fmt::format(
          "ShardedOptimizer: parameter '{}' has a sparse gradient, which is not divided among "
          "ranks: make the embedding with sparse(false), or use DistributedOptimizer",
          bucket_.parameters[place].name));
    if (!buffer_) buffer_ = buffers_ == nullptr ? own_ : buffers_->take();
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
    if (buffers_ != nullptr && buffer_) buffers_->starts();
  }

  void reduce(Communicator& communicator) override {
    const auto give_back = [this] {
      if (buffers_ != nullptr && buffer_) buffers_->give_back(std::exchange(buffer_, {}));
    };
    try {
      communicator.reducescatter(buffer_.get(), bucket_.gradient.data_ptr(), bucket_.counts,
                                 data_type(bucket_.plan.type, "a bucket"), op_);
      communicator.allreduce(flags_.data_ptr(), flags_.data_ptr(), bucket_.plan.flags(),
                             DataType::float32, op_);
    } catch (...) {  // rethrown
      give_back();
      throw;
    }
    give_back();
  }

  void finish() override { step_flags_.read(flags_, op_, ranks_); }

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
                                 .to(updated.scalar_type());
  }

  bool holds_gradient(std::size_t) const override { return false; }
  void clear(std::size_t) override {}
  const StepFlags* flags() const override { return &step_flags_; }

 private:
  std::size_t bytes() const { return bucket_.plan.gradient_elements * bucket_.element_bytes(); }

  torch::Tensor at_place(std::size_t place) const {
    const torch::Tensor& parameter = bucket_.parameters[place].tensor;
    return torch::from_blob(buffer_.get() + starts_[place] * bucket_.element_bytes(),
                            parameter.sizes(), parameter.strides(), parameter.options());
  }

  ShardedBucket& bucket_;
  GradientBuffers* buffers_;
  ReduceOp op_;
  int ranks_;
  std::vector<std::size_t> starts_;
  std::shared_ptr<std::byte> own_;
  std::shared_ptr<std::byte> buffer_;  // from the first gradient to the end of the reduction
  std::shared_ptr<std::byte> flags_memory_;
  torch::Tensor flags_;
  StepFlags step_flags_;
};

}  // namespace

GradientBuffers::GradientBuffers(std::size_t count, std::size_t bytes, const World& world)
    : world_(world), bytes_(bytes) {
  for (std::size_t i = 0; i < count; ++i) {
    free_.push_back(world.allocate_shared(bytes));
    shared_.push_back(free_.back().get());
  }
}

std::shared_ptr<std::byte> GradientBuffers::take() {
  std::unique_lock lock(mutex_);
  // Of a world that has failed nothing comes back.
  while (free_.empty() && under_way_ > 0 && !AdapterView(world_).has_failed())
    changed_.wait_for(lock, kLookPeriod);
  if (free_.empty()) return {new std::byte[bytes_], std::default_delete<std::byte[]>()};
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

std::unique_ptr<BucketReduction> make_sharded_reduction(const ReductionRequest& request,
                                                        ShardedBucket& bucket,
                                                        GradientBuffers* buffers) {
  return std::make_unique<ShardedReduction>(request, bucket, buffers);
}

}  // namespace sullae
