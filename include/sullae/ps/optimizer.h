// An optimizer whose parameters and state are on parameter servers.
#pragma once

#include <torch/optim/optimizer.h>
#include <torch/ordered_dict.h>
#include <torch/types.h>

#include <memory>
#include <string>

#include "sullae/ps/options.h"

namespace sullae::ps {

/// An optimizer whose parameters and state are on servers. Parameters are float32 on the CPU, and
/// the same on all workers in number, order and shape; worker 0's values are everybody's first.
/// Buffers (of batch normalisation, say) stay each worker's own. A parameter of which no worker has
/// a gradient in a step is not updated.
///
/// A worker that ends, or is killed, is waited for no more, and one that comes later goes on from
/// where the others are. Used by the thread that trains.
class ParameterServerOptimizer {
 public:
  /// Gives parameters the servers' values. Throws InputError for parameters that cannot be on
  /// servers, options that cannot be (AMSGrad), and where a server holds other parameters;
  /// TimeoutError where one does not answer.
  ParameterServerOptimizer(const torch::OrderedDict<std::string, torch::Tensor>& parameters,
                           const RuleOptions& rule, const WorkerOptions& options = {});
  ~ParameterServerOptimizer();
  ParameterServerOptimizer(const ParameterServerOptimizer&) = delete;
  ParameterServerOptimizer& operator=(const ParameterServerOptimizer&) = delete;

  /// Sends gradients, and waits for the values to go on with. Throws TimeoutError, Error.
  void step();
  /// From now on gradients travel while backward() still computes others, and step() sends those
  /// that are left: so many times backward() is called before each step(), after which nothing
  /// changes them (no clipping), and learning rates are set before. A further backward() throws
  /// InputError, as pull() and rest() do between it and step(). Once, before training.
  void overlap_backward(int passes = 1);
  /// Gives parameters the servers' values as they are now, without a step.
  void pull();
  /// Before a wait for others that is not step()'s: they need not wait for this worker until it
  /// pulls, which it must do before it steps again. Workers that wait for each other meet again
  /// after they pulled, so that none steps while another rests.
  void rest();
  /// The servers' state of the rule, into an optimizer of the same kind and parameters: for
  /// checkpoints.
  void gather_state(torch::optim::Optimizer& into);
  /// And back, with the parameters' values as they are here. To be called by worker 0, while nobody
  /// steps; who goes on pulls.
  void scatter_state(torch::optim::Optimizer& from);
  void zero_grad();
  double learning_rate() const;
  void set_learning_rate(double rate);
  Staleness staleness() const;
  /// What the servers allow: ServerOptions::staleness.
  int staleness_bound() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sullae::ps
