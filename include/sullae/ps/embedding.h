// Embeddings whose rows are on parameter servers: tables that no worker holds.
//
//   sullae::ps::Embedding words(sullae::ps::EmbeddingOptions{.dimension = 64});
//   ...
//   auto loss = net(words(ids));
//   loss.backward();
//   words->step();
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>
#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "sullae/ps/options.h"

namespace sullae::ps {

struct EmbeddingOptions {
  std::int64_t dimension = 0;
  RuleOptions rule = torch::optim::AdagradOptions(0.01);
  /// Rows begin as draws from N(0, deviation²), which depend on the name, the seed and the row's
  /// number alone.
  double deviation = 1;
  std::uint64_t seed = 0;
  /// How many there are, where that is known: servers refuse one of another number. 0 where it is
  /// not.
  std::int64_t rows = 0;
  /// The row that is zeros, and is not trained.
  std::optional<std::int64_t> padding_id = {};
};

/// Rows as they are saved, and go from one table to another. `first` and `second` are what the rule
/// keeps of them, and undefined where it keeps nothing.
struct TableRows {
  torch::Tensor ids;     ///< int64 [rows], ascending
  torch::Tensor values;  ///< float32 [rows, dimension]
  /// float32 [rows, dimension]: momentum, the sum of squares, or Adam's first moment.
  torch::Tensor first;
  /// float32 [rows, dimension]: Adam's second.
  torch::Tensor second;
  std::int64_t steps = 0;  ///< that the table has behind it
};

/// A table without a size: any number from 0 is a row, on the server that its hash says, and takes
/// memory there from its first update on. Rows without a gradient in a step are left alone, and
/// what the rule keeps of them too, as PyTorch's SparseAdam and sullae::Adam do with sparse
/// gradients. It has no parameters() of its own: step() trains it.
///
/// With staleness 0 the gradients of all workers are averaged and applied as one, which is what one
/// process with all their samples does; every worker steps as often as the others, also when it
/// looked nothing up. Used by the thread that trains.
class EmbeddingImpl : public torch::nn::Module {
 public:
  /// Throws InputError for options that cannot be, and where the servers' table is another;
  /// TimeoutError where one does not answer.
  explicit EmbeddingImpl(const EmbeddingOptions& options, const WorkerOptions& worker = {});
  ~EmbeddingImpl() override;

  /// `ids` is int64 of any shape, on the CPU; the rows are float32 [..., dimension]. Where
  /// gradients are recorded (torch::GradMode), the next step() has those of these rows. Throws
  /// InputError for numbers below 0; TimeoutError, Error.
  torch::Tensor forward(const torch::Tensor& ids);
  /// Sends the gradients since the last step, and waits as far as the bound says. Throws
  /// TimeoutError, Error.
  void step();
  /// Forgets them; a look-up that has not been backpropagated yet still counts.
  void zero_grad(bool set_to_none = true) override;

  /// As of ParameterServerOptimizer.
  void rest();
  void pull();
  double learning_rate() const;
  void set_learning_rate(double rate);
  Staleness staleness() const;
  int staleness_bound() const;

  /// All rows that there are: for checkpoints, and of one moment where nobody steps. They must fit
  /// into this process.
  TableRows gather();
  /// Replaces all rows. To be called by one worker, while nobody steps. Throws InputError for rows
  /// that are none of this table's.
  void scatter(const TableRows& rows);

  void pretty_print(std::ostream& stream) const override;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};
TORCH_MODULE(Embedding);

}  // namespace sullae::ps
