#include "sullae/error.h"
#include "train/update/weight_update.h"

namespace sullae::train {

bool has_parameter_servers() { return false; }

std::unique_ptr<WeightUpdate> make_server_update(torch::nn::Module&, const TrainOptions&) {
  throw InputError("this build has no parameter servers");
}

std::unique_ptr<WeightUpdate> make_sparse_server_update(torch::nn::Module&, const TrainOptions&) {
  throw InputError("this build has no parameter servers");
}

}  // namespace sullae::train
