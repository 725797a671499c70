// Parameter servers: processes that hold the parameters and update them, so that workers need not
// wait for each other.
//
//   sullae::ps::ParameterServerOptimizer optimizer(model->named_parameters(), torch::optim::SGDOptions(0.1));
//   ...
//   optimizer.zero_grad();
//   loss.backward();
//   optimizer.step();
//
// started with `sullae run --ps 2 -np 4 --staleness 4 ./train`.
#pragma once

#include "sullae/ps/embedding.h"
#include "sullae/ps/optimizer.h"
#include "sullae/ps/options.h"
#include "sullae/ps/server.h"
