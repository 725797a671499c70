// Trains a model of your own on all ranks.
#pragma once

#include <torch/nn/module.h>

#include <string>
#include <vector>

#include "sullae/error.h"
#include "sullae/sullae.h"
#include "sullae/train/data.h"
#include "sullae/train/objective.h"
#include "sullae/train/observer.h"
#include "sullae/train/options.h"

namespace sullae::train {

/// The training was asked to end, by the signal, and has, on every rank.
class Stopped : public Error {
 public:
  Stopped(const std::string& what, int signal) : Error(what), signal_(signal) {}
  int signal() const { return signal_; }

 private:
  int signal_;
};

/// Trains `model` in place, with weights that rank 0 gives all, and tests it after each epoch. A
/// step covers the same samples on any number of ranks, so the result is one process's, up to
/// rounding and what is drawn at random while training, as dropout. Rank 0 shows progress, and
/// writes what `options` ask for: checkpoints, of which --resume's equal takes the newest up, a
/// report, events for TensorBoard, metrics for Prometheus. Collective: ranks give the same options,
/// and models of the same parameters. With TrainOptions::scale_up the model must be able to clone()
/// itself; with shard = "parameters" it HasUnits, and save_weights() saves what was trained. With
/// TrainOptions::mesh ranks have parts of the model: it HasStages with pp, and has
/// TensorParallelLayer with tp.
///
/// `name`, of letters, digits, `_`, `-` and `.`, stands in reports, and in checkpoints, so that no
/// other model takes them for its own. `observers` are told too. Returns rank 0's report on rank 0,
/// and the rank's own elsewhere. Throws InputError for options that cannot be or data without
/// samples, Stopped with TrainOptions::end_on_signals, and what reading, the model and the
/// collectives throw. In a job with parameter servers that has lost a rank meanwhile `world` has
/// ended, and the one of those that are left is init()'s.
Report fit(torch::nn::Module& model, const Objective& objective, Data& data,
           const TrainOptions& options, const std::string& name = "model",
           const std::vector<Observer*>& observers = {}, const World& world = sullae::world());

}  // namespace sullae::train
