// The norm of gradients that are divided among ranks.
#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <set>
#include <string>

namespace sullae {

/// The sum of the squares of `module`'s gradients, in which what other ranks have, too, is left out: parameters called
/// `elsewhere`, and, unless `is_first` of the ranks of its tensor parallel layers, those that are whole.
double own_squares(const torch::nn::Module& module, bool is_first,
                   const std::set<std::string>& elsewhere = {});

/// What gradients of norm `norm` are multiplied by, so that it is at most `most`; as torch::nn::utils::clip_grad_norm_ has it.
double clip_factor(double norm, double most);

/// Scales gradients of norm `norm` down to `most`.
void scale_to_norm(const torch::nn::Module& module, double norm, double most);

}  // namespace sullae
