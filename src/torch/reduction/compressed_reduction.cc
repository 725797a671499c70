#include "sullae/compression.h"
#include "torch/reduction/dense_reduction.h"
#include "torch/reduction/reductions.h"

namespace sullae {
namespace {

class CompressedReduction final : public DenseReduction {
 public:
  CompressedReduction(const ReductionRequest& request, std::unique_ptr<Compression> compression)
      : DenseReduction(request, GradientMemory::shared(request)),
        compression_(std::move(compression)) {}

  void reduce(Communicator& communicator) override {
    compression_->allreduce(communicator, memory().flat.data_ptr<float>(), plan().gradient_elements,
                            op());
    reduce_flags(communicator);
  }

 private:
  std::unique_ptr<Compression> compression_;
};

}  // namespace

std::unique_ptr<BucketReduction> make_compressed_reduction(const ReductionRequest& request) {
  if (request.plan.type != torch::kFloat32) return nullptr;
  auto compression = make_compression(request.options.compression);
  if (compression == nullptr) return nullptr;
  return std::make_unique<CompressedReduction>(request, std::move(compression));
}

}  // namespace sullae
