#include "torch/reduction/reductions.h"
#include "torch/sparse_rows.h"

namespace sullae {
namespace {

class SparseReduction final : public BucketReduction {
 public:
  explicit SparseReduction(const ReductionRequest& request)
      : parameter_(request.parameters.front().tensor), op_(request.options.op) {}

  void take(std::size_t) override {
    used_ = parameter_.grad().defined();
    rows_ = rows_of(parameter_.grad());
  }
  void start(bool) override {}
  void reduce(Communicator& communicator) override {
    ReducedRows reduced = reduce_rows(communicator, rows_, used_, parameter_.size(0), op_);
    rows_ = std::move(reduced.rows);
    used_ = reduced.used;
  }
  void give(std::size_t) override {
    parameter_.mutable_grad() =
        used_
            ? rows_.to_tensor(parameter_.sizes()).to(parameter_.device(), parameter_.scalar_type())
            : torch::Tensor();
  }
  bool holds_gradient(std::size_t) const override { return false; }
  void clear(std::size_t) override {}

 private:
  SparseRows rows_of(const torch::Tensor& gradient) const {
    if (gradient.defined() && is_row_sparse(gradient)) return SparseRows::from(gradient);
    if (gradient.defined()) return SparseRows::from(gradient.to_dense().to_sparse(1));
    auto shape = parameter_.sizes().vec();
    shape[0] = 0;
    return {{}, torch::empty(shape, row_type(parameter_.scalar_type()))};
  }

  torch::Tensor parameter_;
  ReduceOp op_;
  SparseRows rows_;    // this rank's, then everybody's
  bool used_ = false;  // by this rank, then by any
};

}  // namespace

std::unique_ptr<BucketReduction> make_sparse_reduction(const ReductionRequest& request) {
  if (!request.plan.sparse) return nullptr;
  return std::make_unique<SparseReduction>(request);
}

}  // namespace sullae
