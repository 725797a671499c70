#include <torch/torch.h>

#include <optional>

#include "base/environment.h"
#include "launch/environment.h"
#include "ps/endpoints.h"
#include "sullae/error.h"
#include "sullae/ps/optimizer.h"
#include "train/local_sgd.h"
#include "train/models/row_source.h"
#include "train/optimizers.h"
#include "train/update/server_rule.h"
#include "train/update/stopwatch.h"
#include "train/update/weight_update.h"

namespace sullae::train {
namespace {

void check_for_servers(const TrainOptions& options) {
  Objections objections;
  objections.require(options.shard == "none",
                     "they hold the optimizer: --shard divides it among ranks");
  objections.require(!parse_local_sgd(options.local_sgd).enabled(),
                     "they hold the weights: --local-sgd averages those of ranks");
  objections.require(options.compression == "none", "do not go with --compression");
  objections.require(options.precision == "float32", "hold float32: do not go with --precision");
  objections.require(options.clip_norm == 0, "do not clip: add --clip-norm 0");
  objections.require(!options.sync_batch_norm,
                     "ranks step by themselves: --sync-batch-norm has them wait for each other");
  objections.require(options.weight_decay == 0 || options.decay_all,
                     "decay all parameters or none: add --decay-all, or --weight-decay 0");
  objections.raise();
}

// Its number among those of the job, some of which may have ended before `world` was made.
int worker_of(const World& world) {
  const WorldOptions job = detect_world(process_environment());
  return job.size > 1 ? job.rank : world.rank();
}

class ServerUpdate final : public GatheredUpdate {
 public:
  // `model` has the weights to start from.
  ServerUpdate(torch::nn::Module& model, const TrainOptions& options)
      : GatheredUpdate(model),
        resumes_(options.resume),
        // Replicas' gradients are added up after backward.
        passes_(options.overlap && options.scale_up == 1 ? options.accumulation_steps : 0),
        names_(model.named_parameters()),
        optimizer_(make_optimizer(options, names_)) {
    check_for_servers(options);
    require_server_optimizer(options);
    require_of_servers(dynamic_cast<HasTable*>(&model) == nullptr,
                       "the model has a table with sparse gradients: add --ps-mode ps-sparse");
  }

  void enter(const World& world) override {
    world_ = world;
    if (remote_) return;  // and is still the worker that it was
    // The servers may have others (--ps-dir), of another moment than the checkpoint's.
    if (resumes_ && world.rank() == 0) {
      for (const auto& item : names_) loaded_.push_back(item.value().detach().clone());
    }
    remote_.emplace(names_, server_rule(*optimizer_),
                    ps::WorkerOptions{.worker = worker_of(world)});
    if (passes_ > 0) remote_->overlap_backward(passes_);
  }

  // Its learning rate is used, and its state in checkpoints.
  torch::optim::Optimizer& optimizer() override { return *optimizer_; }
  bool averages_gradients() const override { return remote_->staleness_bound() == 0; }
  torch::ScalarType input_type() const override { return torch::kFloat32; }

  // The rate is that of the step which begins here.
  void zero_grad() override {
    remote_->set_learning_rate(optimizer_->param_groups().front().options().get_lr());
    remote_->zero_grad();
  }
  bool reduce(double) override { return true; }
  void clip(double) override {}
  void step() override {
    const Stopwatch watch(waiting_);
    loaded_.clear();  // there was no checkpoint yet
    remote_->step();
  }

  // When all have given what they have to give.
  void join_weights() override {
    const Stopwatch watch(waiting_);
    rest();
    world_->barrier();
    remote_->pull();
    // Nor does anybody step before all have pulled.
    broadcast_buffers(model_, *world_);
    world_->barrier();
  }

  bool outlives_ranks() const override { return true; }
  void rest() override { remote_->rest(); }

  // Of one moment: nobody steps before rank 0 has it all.
  WholeState gather() override {
    join_weights();
    if (world_->rank() == 0) remote_->gather_state(*optimizer_);
    world_->barrier();
    return {.optimizer = &*optimizer_, .weights = {}};
  }
  MasterWeights master_weights() override { return {}; }
  void scatter(torch::optim::Optimizer& loaded) override {
    if (world_->rank() == 0) {
      const torch::NoGradGuard guard;
      for (std::size_t i = 0; i < loaded_.size(); ++i) names_[i].value().copy_(loaded_[i]);
      move_optimizer_state(loaded, *optimizer_);
      remote_->scatter_state(*optimizer_);
    }
    loaded_.clear();
    join_weights();
  }

  std::string observed() const override { return describe(remote_->staleness()); }

 private:
  bool resumes_;
  int passes_;  // during which gradients are sent
  torch::OrderedDict<std::string, torch::Tensor> names_;
  std::vector<torch::Tensor> loaded_;
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
  std::optional<World> world_;
  std::optional<ps::ParameterServerOptimizer> remote_;
};

}  // namespace

bool has_parameter_servers() { return ps::has_servers(process_environment()); }

std::unique_ptr<WeightUpdate> make_server_update(torch::nn::Module& model,
                                                 const TrainOptions& options) {
  return std::make_unique<ServerUpdate>(model, options);
}

}  // namespace sullae::train
