// Training models of your own, and serving them (Sullae::train).
//
//   struct Net : torch::nn::Cloneable<Net> { … torch::Tensor forward(torch::Tensor x); };
//
//   sullae::init();
//   Net net;
//   sullae::train::Classification objective(sullae::train::forward_of<Net>());
//   sullae::train::TensorData data({images, labels}, {test_images, test_labels});
//   sullae::train::fit(net, objective, data, {.epochs = 3, .batch_size = 64, .checkpoint_dir = "checkpoints"});
//
// Under `sullae run -np 4` the same program trains on four processes, and gives what it gives on
// one.
#pragma once

#include "sullae/train/data.h"
#include "sullae/train/export.h"
#include "sullae/train/fit.h"
#include "sullae/train/objective.h"
#include "sullae/train/observer.h"
#include "sullae/train/options.h"
#include "sullae/train/stages.h"
#include "sullae/train/units.h"
