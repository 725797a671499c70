// Parameters that several stages of a model have.
#pragma once

#include <torch/nn/module.h>
#include <torch/ordered_dict.h>
#include <torch/types.h>

#include <set>
#include <string>
#include <vector>

#include "sullae/sullae.h"

namespace sullae::train {

/// Those of this rank's that ranks before it have, too. Collective over the stages.
std::set<std::string> names_of_ranks_before(const torch::nn::Module& model, const World& stages);

/// By one name, as vectors that texts begin with and are scored by. All functions are collective
/// over the stages.
class TiedParameters {
 public:
  /// Throws InputError, on every rank, where those of one name differ in type or shape.
  TiedParameters(const torch::nn::Module& model, const World& stages);

  /// They become those of the first that has them.
  void start_equal() const;
  /// Gradients of `updated`, which stands for the parameters by their names, become their sum: of
  /// the whole, or of the same elements on all. What is not in it has no elements here.
  void add_up_gradients(const torch::OrderedDict<std::string, torch::Tensor>& updated) const;
  /// Of this rank's.
  std::set<std::string> names() const;
  /// Those of this rank's that ranks before it have, too.
  const std::set<std::string>& of_ranks_before() const { return of_ranks_before_; }

 private:
  struct Tied {
    std::string name;
    torch::Tensor parameter;
    World holders;
  };
  std::vector<Tied> own_;  // of this rank
  std::set<std::string> of_ranks_before_;
};

}  // namespace sullae::train
