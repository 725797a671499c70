#include "torch/reduction/dense_reduction.h"
#include "torch/reduction/reductions.h"

namespace sullae {
namespace {

class AdasumReduction final : public DenseReduction {
 public:
  explicit AdasumReduction(const ReductionRequest& request)
      : DenseReduction(request, GradientMemory::shared(request)) {
    for (const PlannedParameter& parameter : request.parameters)
      elements_.push_back(aligned_elements(parameter.tensor));
  }

  void reduce(Communicator& communicator) override {
    communicator.adasum(memory().flat.data_ptr(), memory().flat.data_ptr(), elements_, type());
    reduce_flags(communicator);
  }

 private:
  std::vector<std::size_t> elements_;  // of each gradient
};

}  // namespace

std::unique_ptr<BucketReduction> make_adasum_reduction(const ReductionRequest& request) {
  if (request.options.op != ReduceOp::adasum) return nullptr;
  return std::make_unique<AdasumReduction>(request);
}

}  // namespace sullae
