#include "torch/reduction/step_flags.h"

namespace sullae {

void StepFlags::read(const torch::Tensor& reduced, ReduceOp op, int ranks) {
  const torch::Tensor flags = reduced.to(torch::kFloat64);
  const auto* flag = flags.data_ptr<double>();
  // An average of ones may be a little less than one: it is a sum times 1/ranks.
  const double one_rank = op == ReduceOp::average ? 1.0 / ranks : 1;
  const double all_but_half = (ranks - 0.5) * one_rank;
  for (Presence& one : presence) {
    one = *flag == 0             ? Presence::nowhere
          : *flag > all_but_half ? Presence::everywhere
                                 : Presence::on_some_ranks;
    ++flag;
  }
  anyone_stepped = *flag != 0;
}

}  // namespace sullae
