// A checkpoint that is read part by part, where the model is, or is not, whole.
#pragma once

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>
#include <torch/serialize/input-archive.h>
#include <torch/types.h>

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "parallel/checkpoint/checkpoint.h"
#include "parallel/sharded_state.h"
#include "torch/lazy_archive.h"

namespace sullae {

struct ModelTensor {
  std::string name;
  torch::Tensor tensor;
  bool is_buffer = false;
};

/// Of a module and of units that it lacks: for each parameter of the parts' its name in the model,
/// and then the rest.
struct ModelTensors {
  ModelTensors(const torch::nn::Module& module, const ParameterParts& parts);
  std::vector<ModelTensor> sharded;
  std::vector<ModelTensor> rest;
};

/// The file, on the root. Used by the thread that trains.
class CheckpointSource {
 public:
  /// `sharded`: null where weights are loaded alone. Throws CheckpointError for a file that is not
  /// whole, InputError for one of another model, or, where there is one, optimizer.
  CheckpointSource(const std::filesystem::path& file, const ModelTensors& model,
                   const ParameterParts& parts, const Sharded* sharded);

  /// With its options, of no size.
  const torch::optim::Optimizer& optimizer() const { return *outline_; }
  const CheckpointMetadata& metadata() const { return metadata_; }
  const torch::Tensor& weights(std::size_t parameter) const { return weights_[parameter]; }
  const StateTensors& state(std::size_t parameter) const { return states_[parameter]; }

  /// The elements [from, to) of what is stored, as they lie in `like`. What cannot be read is
  /// zeros, and problem() says why: others wait for them.
  torch::Tensor range(const torch::Tensor& stored, const torch::Tensor& like, std::size_t from,
                      std::size_t to);
  /// Into `to`, number `number` of the rest.
  void copy_rest(std::size_t number, torch::Tensor& to);

  /// What was met first; empty for nothing.
  const std::string& problem() const { return problem_; }

 private:
  bool try_to(const std::function<void()>& what);
  torch::Tensor whole(const torch::Tensor& stored);
  torch::Tensor stored(const ModelTensor& one);
  void read_optimizer(torch::serialize::InputArchive& extra, const ParameterParts& parts,
                      const Sharded& sharded);
  void read_states(torch::serialize::InputArchive& optimizer);

  std::string name_;
  LazyArchive archive_;
  std::vector<torch::Tensor> weights_;  // by parameter of the optimizer's
  std::vector<torch::Tensor> rest_;
  CheckpointMetadata metadata_;
  ShardedOptimizer::Pieces parameters_;
  std::unique_ptr<torch::optim::Optimizer> outline_;
  std::vector<StateTensors> states_;
  torch::Tensor last_;  // which laid_out_ is of
  torch::Tensor laid_out_;
  std::string problem_;
};

}  // namespace sullae
