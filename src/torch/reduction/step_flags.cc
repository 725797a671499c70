#include "torch/reduction/step_flags.h"

namespace sullae {

void StepFlags::read(const torch::Tensor& reduced, ReduceOp op, int ranks) {
  const torch::Tensor flags = reduced.to(torch::kFloat64);
  const auto* flag = flags.data_ptr<double>();
  const double everybody = op == ReduceOp::average ? 1 : ranks;
  for (Presence& one : presence) {
    one = *flag == 0           ? Presence::nowhere
          : *flag == everybody ? Presence::everywhere
                               : Presence::on_some_ranks;
    ++flag;
  }
  anyone_stepped = *flag != 0;
}

}  // namespace sullae
