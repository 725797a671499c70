// Some samples of a data set, and what a model says of them.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "predict/evaluation.h"
#include "predict/options.h"
#include "predict/row_writer.h"
#include "serve/model/model.h"
#include "sullae/data/dataset.h"

namespace sullae::predict {

/// What was seen of a part.
struct PartSeen {
  std::size_t rows = 0;
  std::size_t damaged = 0;
  std::optional<Confusion> confusion;
};

/// How many samples are in memory together, with what a model takes of them and answers.
std::size_t most_together(const serve::Model& model, std::size_t batch_size);

/// Used by one thread, which has `options.workers` of its own. What is predicted of a part depends
/// on nothing but its samples.
class PartPredictor {
 public:
  /// `model`, `set` and `options`, which say how large batches are, outlive it.
  PartPredictor(const serve::Model& model, const data::Dataset& set, const PredictOptions& options);

  /// Predicts the samples [begin, end) into `writer`, which is left open. `show` is told how many
  /// are done, now and then. Throws InputError for damaged ones, unless they are to be skipped, and
  /// Error.
  PartSeen predict(std::size_t begin, std::size_t end, RowWriter& writer,
                   const std::function<void(std::size_t done)>& show);
  /// Counts of nothing yet; none without --labels.
  std::optional<Confusion> no_confusion() const {
    return options_.labels ? std::optional(Confusion(labels_)) : std::nullopt;
  }

 private:
  struct Chunk;
  void read(Chunk& chunk, std::size_t most);
  void read_more(Chunk& chunk, std::size_t count);
  void compute(Chunk& chunk, const std::function<void(std::size_t)>& show);
  void write(const Chunk& chunk, RowWriter& writer, PartSeen& seen) const;
  std::string truth_of(const Chunk& chunk, std::size_t place) const;

  const serve::Model& model_;
  const data::Dataset& set_;
  const PredictOptions& options_;
  std::size_t batch_size_;
  std::vector<std::string> labels_;
};

}  // namespace sullae::predict
