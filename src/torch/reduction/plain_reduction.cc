#include "torch/reduction/dense_reduction.h"
#include "torch/reduction/reductions.h"

namespace sullae {
namespace {

// Flags travel with the gradients.
class PlainReduction final : public DenseReduction {
 public:
  using DenseReduction::DenseReduction;

  void reduce(Communicator& communicator) override {
    const SingleAllreduce all = whole();
    communicator.allreduce(all.data, all.data, all.count, all.type, all.op);
  }
  std::optional<SingleAllreduce> single_allreduce() const override { return whole(); }

 private:
  SingleAllreduce whole() const {
    return {memory().flat.data_ptr(), plan().total_elements(), type(), op()};
  }
};

}  // namespace

std::unique_ptr<BucketReduction> make_plain_reduction(const ReductionRequest& request) {
  return std::make_unique<PlainReduction>(request, GradientMemory::shared(request));
}

}  // namespace sullae
