// The model that predicts.
#pragma once

#include <string>
#include <vector>

#include "predict/options.h"
#include "serve/model/config.h"
#include "serve/model/model.h"
#include "torch/blas_threads.h"
#include "train/find_model.h"

namespace sullae::predict {

/// Each number is computed in one way: by one thread of libtorch, as long as this lives; batches
/// are computed side by side.
class OneWay {
 public:
  OneWay();

 private:
  BlasThreads one_{1};
};

struct OpenModel {
  /// Throws InputError.
  explicit OpenModel(const PredictOptions& options);

  /// As the model says; empty where it says nothing.
  std::vector<std::string> output_names() const;

  OneWay computing;
  train::FoundModel found;
  serve::ModelConfig config;
  serve::Model model;
};

}  // namespace sullae::predict
