// What is predicted, and where it goes.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "sullae/data/dataset.h"

namespace sullae::predict {

struct PredictOptions {
  /// See train::find_model().
  std::filesystem::path model;
  std::vector<std::filesystem::path> data;
  data::DatasetOptions reading;
  std::filesystem::path output;
  std::string format = "jsonl";  ///< one of formats()
  /// Features of a sample that are written beside its prediction.
  std::vector<std::string> columns;
  /// The outputs that are written; empty for all.
  std::vector<std::string> outputs;
  /// Compares with the samples' labels.
  bool labels = false;
  /// Samples a file.
  std::size_t rows_per_file = 10'000;
  /// Samples that are computed together; 0: the model's max_batch_size.
  std::size_t batch_size = 0;
  std::size_t workers = 1;
  /// Empty: the model's.
  std::string device;
  bool skip_damaged = false;
  /// Removes the predictions of another run.
  bool overwrite = false;
};

}  // namespace sullae::predict
