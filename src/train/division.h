// Models that are divided among ranks, and the ranks that train them.
#pragma once

#include <torch/nn/module.h>

#include "sullae/sullae.h"
#include "sullae/train/stages.h"
#include "sullae/train/units.h"
#include "train/models/layer.h"
#include "train/options.h"
#include "train/ranks.h"

namespace sullae::train {

/// That of a network's layers which the options want. Collective where there is one.
Division make_division(const TrainOptions& options, const World& world);

/// Whether ranks have parts of its layers (--mesh tp=N), or some of them (pp=N).
bool is_in_parts(torch::nn::Module& model);

/// Of the whole model, also where this rank has a part of it. Collective where there are several.
std::int64_t count_parameters(torch::nn::Module& model, const Ranks& ranks);

/// Throws InputError, on every rank, where the model's layers are not divided as the options say,
/// among `ranks`.
void check_division(torch::nn::Module& model, const TrainOptions& options, const Ranks& ranks);

/// What several ranks have becomes that of the first of them. Collective.
void start_equal(torch::nn::Module& model, const Ranks& ranks);

}  // namespace sullae::train
