#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "parallel/gradient_norm.h"
#include "sullae/parallel/tensor_parallel.h"
#include "sullae/torch.h"
#include "torch/agreement.h"
#include "train/loss_scale.h"
#include "train/tied_parameters.h"
#include "train/update/part.h"
#include "train/update/weight_update.h"

namespace sullae::train {
namespace {

// What each rank has is updated as if it were all; the norm of gradients, and whether they are
// finite, are the whole model's, and files are, too.
class PartsUpdate final : public WeightUpdate {
 public:
  // `model` has the weights to start from.
  PartsUpdate(torch::nn::Module& model, const TrainOptions& options, const Ranks& ranks)
      : model_(model), options_(options), ranks_(ranks) {
    if (options.shard != "none") check_trained();
    part_ = options.shard == "none" ? make_replicated_part(model, options, ranks)
                                    : make_sharded_part(model, options, ranks);
    if (ranks.tensor && ranks.data.size() > 2 && lies_unalike()) find_whole();
    std::set<std::string> alike(whole_.begin(), whole_.end());
    if (ranks.stages) {
      tied_.emplace(model, *ranks.stages);  // of the types that they have by now
      alike.merge(tied_->names());
    }
    part_->divide_alike(alike);
  }

  void enter(const World& world) override { own().enter(world); }
  torch::optim::Optimizer& optimizer() override { return own().optimizer(); }
  bool averages_gradients() const override { return true; }
  torch::ScalarType input_type() const override { return part_->update().input_type(); }
  void zero_grad() override { own().zero_grad(); }

  bool reduce(double scale) override {
    std::int64_t finite = own().reduce(scale) ? 1 : 0;
    waiting_ = own().seconds_waiting();
    if (options_.shard == "none" && !whole_.empty()) equalise();
    if (tied_) tied_->add_up_gradients(part_->updated());
    if (low_precision(options_))
      ranks_.model->allreduce(&finite, &finite, 1, DataType::int64, ReduceOp::min);
    return finite != 0;
  }

  void clip(double norm) override {
    const auto updated = part_->updated();
    // Replicas of units have the same.
    const bool counts = !ranks_.replicas || ranks_.replicas->rank() == 0;
    const double squares =
        own_squares(updated, parts_of(model_), !ranks_.tensor || ranks_.tensor->rank() == 0,
                    tied_ ? tied_->of_ranks_before() : std::set<std::string>());
    // Ranks that have the same parts have all of these, or divide them.
    clip_to_norm(updated, counts ? squares : 0, norm,
                 options_.shard == "none" ? *ranks_.model : ranks_.all);
  }
  void step() override { own().step(); }

  void join_weights() override { own().join_weights(); }
  std::optional<SerializedCheckpoint> save(const std::filesystem::path& file,
                                           CheckpointMetadata metadata) override {
    part_->save(file, std::move(metadata));
    return std::nullopt;
  }
  std::optional<SerializedCheckpoint> save_weights(const std::filesystem::path& file,
                                                   CheckpointMetadata metadata) override {
    part_->save_weights(file, std::move(metadata));
    return std::nullopt;
  }
  void load(const LoadedCheckpoint& loaded) override { part_->load(loaded.file); }

  MasterWeights master_weights() override { return own().master_weights(); }

 private:
  WeightUpdate& own() { return part_->update(); }

  // Nothing cannot be divided. The ranks of other stages would wait.
  void check_trained() const {
    const auto parameters = model_.parameters();
    const bool is_trained =
        std::ranges::any_of(parameters, [](const auto& one) { return one.requires_grad(); });
    throw_on_all(ranks_.all,
                 is_trained
                     ? ""
                     : fmt::format("--shard {}: the stage of rank {} has no parameter that is "
                                   "trained: expected --shard none, or other stages",
                                   options_.shard, ranks_.all.rank()));
  }

  // With parts of different sizes what is whole on each rank lies elsewhere in its buckets, and
  // sums of more than two ranks are in another order there: ranks would drift apart by roundings.
  bool lies_unalike() const {
    std::int64_t most = 0;
    for (const auto& item : model_.named_parameters()) most += item.value().numel();
    std::int64_t least = most;
    ranks_.tensor->allreduce(&most, &most, 1, DataType::int64, ReduceOp::max);
    ranks_.tensor->allreduce(&least, &least, 1, DataType::int64, ReduceOp::min);
    return most != least;
  }

  void find_whole() {
    const auto parts = parts_of(model_);
    for (const auto& item : model_.named_parameters()) {
      if (item.value().requires_grad() && !parts.contains(item.key())) whole_.push_back(item.key());
    }
  }

  // Gradients of what is whole are the first rank's.
  void equalise() {
    const torch::NoGradGuard guard;
    const auto updated = part_->updated();
    std::vector<torch::Tensor> gradients;
    for (const auto& name : whole_) {
      const auto gradient = updated[name].grad();
      if (gradient.defined()) gradients.push_back(gradient);
    }
    if (gradients.empty()) return;
    std::vector<torch::Tensor> flat;
    for (const auto& gradient : gradients) flat.push_back(gradient.reshape(-1));
    const torch::Tensor values = torch::cat(flat);
    broadcast(values, 0, *ranks_.tensor);
    std::int64_t begin = 0;
    for (auto& gradient : gradients) {
      gradient.copy_(values.narrow(0, begin, gradient.numel()).view(gradient.sizes()));
      begin += gradient.numel();
    }
  }

  torch::nn::Module& model_;
  TrainOptions options_;
  Ranks ranks_;
  std::vector<std::string> whole_;      // parameters of tensor ranks that are to be kept equal
  std::optional<TiedParameters> tied_;  // of stages
  std::unique_ptr<Part> part_;
};

}  // namespace

std::unique_ptr<WeightUpdate> make_parts_update(torch::nn::Module& model,
                                                const TrainOptions& options, const Ranks& ranks) {
  return std::make_unique<PartsUpdate>(model, options, ranks);
}

}  // namespace sullae::train
