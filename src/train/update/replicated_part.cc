#include <torch/torch.h>

#include <functional>
#include <utility>

#include "parallel/gradient_norm.h"
#include "sullae/parallel/tensor_parallel.h"
#include "sullae/torch.h"
#include "torch/agreement.h"
#include "train/optimizers.h"
#include "train/update/part.h"

namespace sullae::train {
namespace {

class ReplicatedPart final : public Part {
 public:
  ReplicatedPart(torch::nn::Module& model, const TrainOptions& options, const Ranks& ranks)
      : model_(model),
        options_(options),
        ranks_(ranks),
        update_(make_replicated_update(model, options)) {}

  void divide_alike(const std::set<std::string>&) override {}  // they are whole
  WeightUpdate& update() override { return *update_; }
  torch::OrderedDict<std::string, torch::Tensor> updated() override {
    return with_masters(model_.named_parameters(), update_->master_weights());
  }

  void save(const std::filesystem::path& file, CheckpointMetadata metadata) override {
    on_first([&] {
      save_checkpoint(file, model_, as_parts(), *ranks_.model, {.metadata = std::move(metadata)});
    });
  }
  void save_weights(const std::filesystem::path& file, CheckpointMetadata metadata) override {
    on_first([&] {
      sullae::save_weights(file, model_, *ranks_.model, {.metadata = std::move(metadata)},
                           update_->master_weights());
    });
  }
  void load(const std::filesystem::path& file) override {
    const KeptOptions kept(update_->optimizer());
    on_first([&] { load_checkpoint(file, model_, as_parts(), *ranks_.model); });
    for (auto& [name, weight] : update_->master_weights()) {
      torch::Tensor values = weight.detach();
      broadcast(values, 0, ranks_.data);
    }
    update_->take_master_weights();
    broadcast_parameters(model_, 0, ranks_.data);
    broadcast_optimizer_state(update_->optimizer(), 0, ranks_.data);
  }

 private:
  PartsOptimizer as_parts() {
    return {.optimizer = update_->optimizer(),
            .make = [this](const auto& pieces) { return make_optimizer(options_, pieces); },
            .masters = update_->master_weights()};
  }

  // Of the ranks that have the same part. What it throws, all throw.
  void on_first(const std::function<void()>& what) { on_root(ranks_.data, 0, what); }

  torch::nn::Module& model_;
  TrainOptions options_;
  Ranks ranks_;
  std::unique_ptr<GatheredUpdate> update_;
};

}  // namespace

std::unique_ptr<Part> make_replicated_part(torch::nn::Module& model, const TrainOptions& options,
                                           const Ranks& ranks) {
  return std::make_unique<ReplicatedPart>(model, options, ranks);
}

}  // namespace sullae::train
