// What the stages of a pipeline send each other: tensors of any shape, and that something failed.
#pragma once

#include <torch/types.h>

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "parallel/pipeline/schedule.h"
#include "sullae/sullae.h"

namespace sullae::pipeline {

/// What comes from another stage.
struct Arrival {
  /// The stage that should have sent it failed, or one before it did.
  bool failed = false;
  /// Undefined where nothing is to be handed on: no gradient.
  torch::Tensor tensor;
};

/// A step's messages: each is told apart by the stage that it goes to, and its micro-batch. Used by
/// one thread of a rank.
class Messages {
 public:
  // Which their tags tell apart.
  static constexpr int kMostStages = 1 << 12;
  static constexpr int kMostMicroBatches = 1 << 17;

  /// `world` is used for nothing else.
  explicit Messages(World world) : world_(std::move(world)) {}

  /// A batch of so many micro-batches, on all ranks.
  void begin(int micro_batches) { micro_batches_ = micro_batches; }
  /// A message that will be taken: it comes in while this rank computes.
  void expect(Work work, int to_stage, int micro_batch);
  /// Waits for it. Throws what World::receive does, and InputError where its sender has another
  /// number of micro-batches.
  Arrival take(Work work, int to_stage, int micro_batch);
  /// Throws InputError for a tensor that no message can hold.
  static void check_can_be_sent(const torch::Tensor& tensor);
  /// `what` can be sent, and must not change before finish().
  void send(const Arrival& what, Work work, int to_stage, int micro_batch);
  /// All that was sent has been taken.
  void finish();

 private:
  struct Key {
    Work work;
    int stage;
    int micro_batch;
    auto operator<=>(const Key&) const = default;
  };
  struct Incoming;
  struct Outgoing;
  int rank_of(int stage) const { return stage % world_.size(); }
  static int tag_of(const Key& key, bool is_body);
  void drop_sent();

  World world_;
  int micro_batches_ = 0;
  std::map<Key, std::shared_ptr<Incoming>> expected_;
  std::map<Key, Arrival> here_;  // of a stage to another of the same rank
  std::vector<std::shared_ptr<Outgoing>> outgoing_;
};

}  // namespace sullae::pipeline
