// The norm of gradients that are divided among ranks.
#pragma once

#include <torch/ordered_dict.h>
#include <torch/types.h>

#include <map>
#include <set>
#include <string>

#include "sullae/parallel/tensor_parallel.h"

namespace sullae {

/// The sum of the squares of the gradients of `parameters`, in which what other ranks have, too, is
/// left out: those called `elsewhere`, and, unless `is_first` of the ranks of tensor parallel
/// layers, those that are none of `parts`.
double own_squares(const torch::OrderedDict<std::string, torch::Tensor>& parameters,
                   const std::map<std::string, ParameterPart>& parts, bool is_first,
                   const std::set<std::string>& elsewhere = {});

/// What gradients of norm `norm` are multiplied by, so that it is at most `max_norm`; as
/// torch::nn::utils::clip_grad_norm_ has it.
double clip_factor(double norm, double max_norm);

/// `parameters`, with `masters` in the place of those of their names.
torch::OrderedDict<std::string, torch::Tensor> with_masters(
    torch::OrderedDict<std::string, torch::Tensor> parameters,
    const std::map<std::string, torch::Tensor>& masters);

/// Scales the gradients of `parameters`, of which own_squares() are `squares`, so that the norm
/// over all of `world` is at most `max_norm`. Returns the norm before. Collective.
double clip_to_norm(const torch::OrderedDict<std::string, torch::Tensor>& parameters,
                    double squares, double max_norm, const World& world);

/// Scales gradients of norm `norm` down to `max_norm`.
void scale_to_norm(const torch::OrderedDict<std::string, torch::Tensor>& parameters, double norm,
                   double max_norm);

}  // namespace sullae
