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
  /// What was summed before counts once, if it is still there.
  void begin_step();
  void sum_tied_gradients();
  /// Scales gradients down to `most`, and returns their norm.
  double clip(double most, const World* tensor);

  torch::OrderedDict<std::string, torch::Tensor> parameters() const;
  std::shared_ptr<torch::nn::Module> gather(int root) const;
  void load(const torch::nn::Module& whole);

 private:
  // Of one group of tied parameters.
  struct Tied {
    std::vector<torch::Tensor> own;  // each once
    bool has_first = false;          // that all others are like
    std::optional<World> holders;    // nobody else where there is none
  };
  std::set<int> checked_holders(const std::vector<std::string>& group) const;
  bool is_first_holder(const std::string& name) const;
  void tie(const std::vector<std::string>& group);
  std::vector<NamedState> state() const;

  World world_;
  std::vector<PipelineStage> own_;
  std::vector<std::map<std::string, std::string>>
      all_;                 // by rank: its parameters' types and shapes
  bool has_parts_ = false;  // any stage
  std::vector<std::vector<std::string>> tied_names_;
  std::vector<Tied> tied_;  // of which this rank has some
};

}  // namespace sullae::pipeline
