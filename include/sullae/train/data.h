// What a model is trained and tested on.
#pragma once

#include <torch/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace sullae::train {

enum class Split { train, test };

/// Samples as a model takes them, and what it should say of them, [batch, …]: a class (int64),
/// numbers, the next tokens.
struct Batch {
  std::vector<torch::Tensor> inputs;
  torch::Tensor labels;

  std::int64_t size() const { return labels.size(0); }
  /// On a device, with floating-point inputs in `type`.
  Batch to(const torch::Device& device, torch::ScalarType type) const;
};

/// Batches in the order that was asked for. Used by one thread.
class BatchStream {
 public:
  virtual ~BatchStream() = default;
  /// Empty after the last. Throws what reading threw.
  virtual std::optional<Batch> next() = 0;
  /// Time that next() has taken so far.
  virtual double seconds_waited() const = 0;
};

/// The numbers of the samples of each batch.
using BatchPlan = std::vector<std::vector<std::size_t>>;

/// Calls `make` with the samples of each batch when it is asked for, in the thread that asks.
std::unique_ptr<BatchStream> assemble(
    BatchPlan plan, std::function<Batch(const std::vector<std::size_t>& samples)> make);

/// Samples by number. Every rank has the same ones, and reads those that it is asked for. Used by
/// the training thread.
class Data {
 public:
  virtual ~Data() = default;
  virtual std::size_t size(Split split) const = 0;
  /// As many batches as the plan has. `epoch` may decide, with the samples' numbers and a seed
  /// alone, how samples are augmented.
  virtual std::unique_ptr<BatchStream> batches(Split split, BatchPlan plan, std::size_t epoch) = 0;
  /// Samples that are tested together: what fits in memory without gradients, and is enough for
  /// speed.
  virtual std::size_t test_batch_size() const { return 250; }
  /// Where the data came from, for people.
  virtual std::string data_description() const { return "data of its own"; }
  /// Records that were left out so far, on this rank.
  virtual std::size_t damaged() const { return 0; }
  /// A number for each of them, by which several ranks' are told apart: see DamageLog::records().
  virtual std::set<std::uint64_t> damaged_records() const { return {}; }
};

/// Samples in memory: the rows of tensors.
class TensorData final : public Data {
 public:
  /// [count, …]. Without inputs or labels there is no test.
  struct Samples {
    torch::Tensor input;
    torch::Tensor labels;
  };

  /// Throws InputError where inputs and labels are not equally many.
  explicit TensorData(Samples train, Samples test = {}, std::string description = "tensors");

  std::size_t size(Split split) const override;
  std::unique_ptr<BatchStream> batches(Split split, BatchPlan plan, std::size_t epoch) override;
  std::string data_description() const override { return description_; }

 private:
  const Samples& of(Split split) const { return split == Split::train ? train_ : test_; }

  Samples train_;
  Samples test_;
  std::string description_;
};

}  // namespace sullae::train
