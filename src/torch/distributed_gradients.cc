#include <fmt/format.h>

#include <utility>

#include "sullae/compression.h"
#include "sullae/torch.h"
#include "torch/bucket_plan.h"
#include "torch/gradient_reducer.h"
#include "torch/trained_parameters.h"

namespace sullae {
namespace {

void check_options(const DistributedOptimizerOptions& options) {
  if (options.backward_passes_per_step < 1)
    throw InputError("DistributedOptimizer: backward_passes_per_step must be at least 1");
  if (options.op != ReduceOp::average && options.op != ReduceOp::sum &&
      options.op != ReduceOp::adasum) {
    throw InputError(fmt::format("DistributedOptimizer: op is {}, expected average, sum or adasum",
                                 name(options.op)));
  }
  if (options.op == ReduceOp::adasum && !options.compression.empty())
    throw InputError("DistributedOptimizer: adasum does not go with compression");
  make_compression(options.compression);  // throws where there is none of that name
}

std::string text_of(const DistributedOptimizerOptions& options) {
  return fmt::format(
      "op={} backward_passes_per_step={} bucket_bytes={} compression='{}' sparse_as_dense={}",
      name(options.op), options.backward_passes_per_step, options.bucket_bytes, options.compression,
      options.sparse_as_dense);
}

// This rank takes no steps of its own, also where what it waits for throws.
class Following {
 public:
  explicit Following(GradientReducer& reducer) : reducer_(reducer) { reducer_.set_stepping(false); }
  ~Following() { reducer_.set_stepping(true); }
  Following(const Following&) = delete;
  Following& operator=(const Following&) = delete;

 private:
  GradientReducer& reducer_;
};

}  // namespace

class DistributedGradients::Impl {
 public:
  Impl(const torch::OrderedDict<std::string, torch::Tensor>& parameters,
       const DistributedOptimizerOptions& options, const World& world)
      : world_(world) {
    check_options(options);
    auto found = trained_of(parameters, "DistributedOptimizer");
    frozen_ = std::move(found.frozen);
    if (world.size() > 1)
      check_same_parameters(found.trained, text_of(options), world, "DistributedOptimizer");
    reducer_ = GradientReducer::make(std::move(found.trained), options, world);
  }

  // A world of one has nothing to say, and is the same error.
  void synchronize() {
    if (world_.has_left())
      throw Error(
          "DistributedOptimizer: this rank has left the world that it was made for (shutdown() or "
          "World::leave()): "
          "make it anew after init()");
    if (world_.size() > 1) check_still_frozen(frozen_, "DistributedOptimizer");
    reducer_->synchronize();
  }

  void stepped() { reducer_->begin_step(); }
  void set_backward_passes_per_step(int passes) {
    if (passes < 1)
      throw InputError("DistributedOptimizer: backward_passes_per_step must be at least 1");
    reducer_->set_backward_passes_per_step(passes);
  }
  void zero_grad() { reducer_->zero_grad(); }
  bool has_seen_gradients() const { return reducer_->has_seen_gradients(); }

  // The others see this rank's zeros, and flags that say that it only follows. When nobody steps
  // any more, all are here.
  int join(const std::function<void()>& step, const std::function<void()>& clear) {
    if (world_.size() == 1) return 0;
    const auto remove = [&] {
      reducer_->zero_grad();
      clear();
    };
    std::int64_t followed = 0;
    for (const Following following(*reducer_);; ++followed) {
      remove();
      reducer_->synchronize();
      if (!reducer_->anyone_stepped()) break;
      step();
    }
    remove();
    // The last to join has followed the fewest steps; of several, the highest rank is named.
    std::int64_t last = (followed + 1) * world_.size() - 1 - world_.rank();
    world_.allreduce(&last, &last, 1, DataType::int64, ReduceOp::min);
    return world_.size() - 1 - static_cast<int>(last % world_.size());
  }

 private:
  World world_;
  std::vector<PlannedParameter> frozen_;
  std::shared_ptr<GradientReducer> reducer_;
};

DistributedGradients::DistributedGradients(
    const torch::OrderedDict<std::string, torch::Tensor>& parameters,
    const DistributedOptimizerOptions& options, const World& world)
    : impl_(std::make_shared<Impl>(parameters, options, world)) {}
DistributedGradients::~DistributedGradients() = default;

void DistributedGradients::synchronize() { impl_->synchronize(); }
void DistributedGradients::stepped() { impl_->stepped(); }
void DistributedGradients::zero_grad() { impl_->zero_grad(); }
bool DistributedGradients::has_seen_gradients() const { return impl_->has_seen_gradients(); }
void DistributedGradients::set_backward_passes_per_step(int passes) {
  impl_->set_backward_passes_per_step(passes);
}
int DistributedGradients::join(const std::function<void()>& step,
                               const std::function<void()>& clear) {
  return impl_->join(step, clear);
}

}  // namespace sullae
