// A rank's stages, and what it knows of the others'.
#pragma once

#include <torch/ordered_dict.h>
#include <torch/types.h>

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "parallel/named_state.h"
#include "sullae/parallel/pipeline.h"

namespace sullae::pipeline {

/// Used by the thread that trains. All calls of one world's ranks are in the same order.
class Stages {
 public:
  using Tensors = torch::OrderedDict<std::string, torch::Tensor>;

  /// Collective; see Pipeline. `world` is used by blocking collectives alone.
  Stages(std::vector<PipelineStage> own, const World& world, const PipelineOptions& options);

  int chunks() const { return static_cast<int>(own_.size()); }
  int stage_of(int chunk) const { return chunk * world_.size() + world_.rank(); }
  int count() const { return chunks() * world_.size(); }
  /// Where it computes.
  torch::Device device_of(int chunk) const;
  torch::Tensor run(int chunk, const torch::Tensor& input) const {
    return own_[static_cast<std::size_t>(chunk)].forward(input);
  }
  const std::vector<PipelineStage>& own() const { return own_; }

  bool has_tied() const { return !tied_names_.empty(); }
  /// Of this rank's that are trained, by the first names that these have.
  std::set<std::string> tied_parameters() const;
  /// What was summed before counts once, if it is still there.
  void begin_step();
  /// Of the gradients of `updated`, which stands for parameters() by their first names: of the
  /// whole, or of the same elements on all ranks. What is not in it has no elements here.
  void sum_tied_gradients(const Tensors& updated);

  bool have_parts() const { return have_parts_; }
  /// The squares of the gradients of `updated`, as above, but for what other ranks count:
  /// `is_first` of those of tensor parallel layers.
  double squares_of(const Tensors& updated, bool is_first) const;

  Tensors parameters() const;
  std::shared_ptr<torch::nn::Module> gather(int root) const;
  void load(const torch::nn::Module& whole);

 private:
  // Of one group of tied parameters.
  struct Tied {
    Tensors own;                   // each once
    bool has_first = false;        // that all others are like
    std::optional<World> holders;  // nobody else where there is none
  };
  std::set<int> checked_holders(const std::vector<std::string>& group) const;
  bool is_first_holder(const std::string& name) const;
  void tie(const std::vector<std::string>& group);
  std::vector<NamedState> state() const;

  World world_;
  std::vector<PipelineStage> own_;
  std::vector<std::map<std::string, std::string>>
      all_;                  // by rank: its parameters' types and shapes
  bool have_parts_ = false;  // any of them
  std::vector<std::vector<std::string>> tied_names_;
  std::vector<Tied> tied_;  // of which this rank has some
};

}  // namespace sullae::pipeline
