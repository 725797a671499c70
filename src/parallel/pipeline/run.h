// One pass of a batch through the stages of a rank.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "parallel/pipeline/messages.h"
#include "parallel/pipeline/schedule.h"
#include "parallel/pipeline/stages.h"
#include "sullae/parallel/pipeline.h"

namespace sullae::pipeline {

struct Batch {
  torch::Tensor inputs;   ///< the first rank's
  torch::Tensor targets;  ///< the last rank's
  bool trains = false;    ///< with gradients, and else for the outputs
  Pipeline::Loss loss;    ///< the last rank's
  double loss_scale = 1;
  int micro_batches = 1;
};

/// Used once, by one thread. A failure of a stage travels in place of its results, so that every
/// rank's messages are the same as without it and no rank waits for one that does not come.
class Run {
 public:
  /// `world` is what the timeline shows it in. All must outlive it.
  Run(const Stages& stages, Messages& messages, const World& world, Batch batch);

  /// Throws what Messages do.
  void run(const std::vector<Action>& actions);

  /// What this rank's stages threw first; null for nothing.
  std::exception_ptr error() const { return error_; }
  /// Whether any stage failed that this rank heard of.
  bool has_failed() const { return failed_; }
  /// The mean over samples, where this rank has the last stage.
  double loss() const { return loss_; }
  /// Of a batch that trains and has not failed here: on the first rank, and on the last; 0
  /// elsewhere.
  std::int64_t inputs() const;
  std::int64_t targets() const;
  int micro_batches() const { return batch_.micro_batches; }
  std::vector<torch::Tensor> take_outputs() { return std::move(outputs_); }
  int most_alive() const { return most_alive_; }

 private:
  struct Kept {
    torch::Tensor result;                      // the output, or the last stage's loss
    std::shared_ptr<torch::Tensor> gradient =  // of the input, once backward was there
        std::make_shared<torch::Tensor>();
  };

  void expect(const Action& action);
  void forward(const Action& action);
  void backward(const Action& action);
  torch::Tensor input_of(int stage, int micro_batch, const torch::Tensor& arrived,
                         const Kept& kept) const;
  torch::Tensor loss_of(const torch::Tensor& output, int micro_batch);
  // Does `work`, unless something has failed; what it throws is a failure of this rank's.
  template <class Call>
  torch::Tensor guarded(const Action& action, const Call& work);
  void divide_batch();

  const Stages& stages_;
  Messages& messages_;
  const World& world_;
  Batch batch_;
  std::vector<torch::Tensor> inputs_;
  std::vector<torch::Tensor> targets_;
  std::map<std::pair<int, int>, Kept> kept_;  // by chunk and micro-batch
  std::vector<torch::Tensor> outputs_;
  std::exception_ptr error_;
  bool failed_ = false;
  double loss_ = 0;
  int most_alive_ = 0;
};

}  // namespace sullae::pipeline
