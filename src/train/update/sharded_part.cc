#include <utility>

#include "sullae/parallel/tensor_parallel.h"
#include "train/optimizers.h"
#include "train/update/part.h"
#include "train/update/sharded_update.h"

namespace sullae::train {
namespace {

class ShardedPart final : public Part {
 public:
  ShardedPart(torch::nn::Module& model, const TrainOptions& options, const Ranks& ranks)
      : model_(model), ranks_(ranks), update_(model, options) {}

  void divide_alike(const std::set<std::string>& names) override { update_.set_own_buckets(names); }
  WeightUpdate& update() override { return update_; }
  torch::OrderedDict<std::string, torch::Tensor> updated() override {
    return update_.sharded().pieces();
  }

  void save(const std::filesystem::path& file, CheckpointMetadata metadata) override {
    save_checkpoint(file, model_, update_.sharded(), ranks_.all, {.metadata = std::move(metadata)});
  }
  void save_weights(const std::filesystem::path& file, CheckpointMetadata metadata) override {
    sullae::save_weights(file, model_, update_.sharded(), ranks_.all,
                         {.metadata = std::move(metadata)});
  }
  void load(const std::filesystem::path& file) override {
    const KeptOptions kept(update_.optimizer());
    load_checkpoint(file, model_, update_.sharded(), ranks_.all);
  }

 private:
  torch::nn::Module& model_;
  Ranks ranks_;
  ShardedUpdate update_;
};

}  // namespace

std::unique_ptr<Part> make_sharded_part(torch::nn::Module& model, const TrainOptions& options,
                                        const Ranks& ranks) {
  return std::make_unique<ShardedPart>(model, options, ranks);
}

}  // namespace sullae::train
