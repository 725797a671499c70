#include <fmt/format.h>
#include <torch/torch.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "parallel/ps/core_options.h"
#include "parallel/ps/whole_state.h"
#include "sullae/ps/embedding.h"
#include "torch/optimizer_state.h"
#include "train/local_sgd.h"
#include "train/models/row_source.h"
#include "train/update/server_rule.h"
#include "train/update/stopwatch.h"
#include "train/update/weight_update.h"

namespace sullae::train {
namespace {

void check_for_tables(const TrainOptions& options) {
  Objections objections;
  objections.require(options.shard == "none", "does not go with --shard");
  objections.require(!parse_local_sgd(options.local_sgd).enabled(), "does not go with --local-sgd");
  objections.require(options.precision == "float32",
                     "servers hold float32: does not go with --precision");
  objections.require(options.clip_norm == 0, "servers have a part of the norm: add --clip-norm 0");
  objections.require(options.scale_up == 1, "does not go with --scale-up");
  objections.require(
      options.optimizer != "sgd" || options.momentum == 0,
      "rows without a gradient have no momentum, which with ranks alone they have: add "
      "--momentum 0");
  objections.require(options.weight_decay == 0,
                     "rows without a gradient would not decay: add --weight-decay 0");
  objections.raise("--ps-mode ps-sparse: ");
}

class Rows final : public RowSource {
 public:
  explicit Rows(ps::Embedding table) : table_(std::move(table)) {}
  torch::Tensor rows(const torch::Tensor& numbers) override { return table_(numbers); }
  ps::EmbeddingImpl& table() { return *table_; }
  ps::Staleness seen() const { return table_->staleness(); }

 private:
  ps::Embedding table_;
};

/// The model's own parameter is what rank 0 had when it looked last: for checkpoints, and for what
/// is exported.
class SparseServerUpdate final : public GatheredUpdate {
 public:
  SparseServerUpdate(torch::nn::Module& model, const TrainOptions& options)
      : GatheredUpdate(model), has_table_(dynamic_cast<HasTable*>(&model)) {
    check_for_tables(options);
    require_server_optimizer(options);
    require_of_servers(has_table_ != nullptr,
                       "--ps-mode ps-sparse: the model has no table of vectors with sparse "
                       "gradients: expected a recipe of words, as lstm or nsmc");
    weight_ = has_table_->table();
    weight_.set_requires_grad(false);
    dense_ = make_replicated_update(model, options);
  }
  ~SparseServerUpdate() override {
    has_table_->take_rows_from(nullptr);
    weight_.set_requires_grad(true);
  }

  void enter(const World& world) override {
    world_ = world;
    dense_->enter(world);
    rows_.emplace(ps::Embedding(
        ps::EmbeddingOptions{
            .dimension = weight_.size(1),
            .rule = server_rule(optimizer()),
            .deviation = 0,
            .rows = weight_.size(0)},  // of another number they stand for other words
        ps::WorkerOptions{.worker = world.rank(), .name = has_table_->table_name()}));
    has_table_->take_rows_from(&*rows_);
    // Rank 0's are everybody's, unless the servers have some (--ps-dir).
    if (world.rank() == 0 && table().gather().ids.numel() == 0) give_rows(whole_of(no_state()));
    world.barrier();
  }

  torch::optim::Optimizer& optimizer() override { return dense_->optimizer(); }
  bool averages_gradients() const override { return true; }
  torch::ScalarType input_type() const override { return torch::kFloat32; }

  void zero_grad() override {
    dense_->zero_grad();
    table().zero_grad();
  }
  bool reduce(double scale) override { return dense_->reduce(scale); }
  void clip(double) override {}
  void step() override {
    dense_->step();
    const Stopwatch watch(waiting_);
    table().set_learning_rate(optimizer().param_groups().front().options().get_lr());
    table().step();
  }

  // A gradient has been taken when step() returns, and nobody has another before rank 0 averages
  // with it.
  void join_weights() override {
    const Stopwatch watch(waiting_);
    world_->barrier();
  }

  WholeState gather() override {
    WholeState whole = dense_->gather();
    if (world_->rank() == 0) {
      const ps::TableRows rows = table().gather();
      take_values(rows);
      state_of(rows).give(*whole.optimizer, weight_);
    }
    return whole;
  }
  // Into the model's own.
  MasterWeights master_weights() override {
    join_weights();
    if (world_->rank() == 0) take_values(table().gather());
    return {};
  }
  void scatter(torch::optim::Optimizer& loaded) override {
    if (world_->rank() == 0) {
      ps::WholeState state = whole_of(no_state());
      state.take(loaded, weight_);
      give_rows(state);
      loaded.state().erase(key_of(loaded.state(), weight_));
    }
    dense_->scatter(loaded);
    world_->barrier();
  }

  std::string observed() const override { return describe(rows_->seen()); }

 private:
  ps::EmbeddingImpl& table() { return rows_->table(); }

  ps::Rule rule() const {
    return ps::core_rule(server_rule(dense_->optimizer()), "--ps-mode ps-sparse");
  }
  ps::RuleState no_state() const {
    return ps::initial_state(rule(), static_cast<std::size_t>(weight_.numel()));
  }
  ps::WholeState whole_of(ps::RuleState state) const { return {rule().kind, std::move(state)}; }
  // Of all rows, as a tensor on it; undefined where the rule keeps nothing.
  torch::Tensor on(std::vector<float>& values) const {
    return values.empty() ? torch::Tensor() : torch::from_blob(values.data(), weight_.sizes());
  }

  void take_values(const ps::TableRows& rows) {
    const bool fits = rows.ids.numel() == 0 || rows.ids[-1].item<std::int64_t>() < weight_.size(0);
    require_of_servers(fits,
                       "--ps-mode ps-sparse: servers have rows of another vocabulary (--ps-dir)");
    weight_.zero_();
    weight_.index_copy_(0, rows.ids, rows.values);
  }

  ps::WholeState state_of(const ps::TableRows& rows) const {
    ps::RuleState state = no_state();
    state.steps = rows.steps;
    if (rows.first.defined()) on(state.first).index_copy_(0, rows.ids, rows.first);
    if (rows.second.defined()) on(state.second).index_copy_(0, rows.ids, rows.second);
    return whole_of(std::move(state));
  }

  // Rows that are zeros, and have never been anything else, are not made.
  void give_rows(const ps::WholeState& whole) {
    ps::RuleState state = no_state();
    whole.get({.tensor = 0, .from = 0, .to = static_cast<std::size_t>(weight_.numel())}, state);
    torch::Tensor used = (weight_ != 0).any(1);
    for (const torch::Tensor& part : {on(state.first), on(state.second)}) {
      if (part.defined()) used = used.logical_or((part != 0).any(1));
    }
    const torch::Tensor ids = used.nonzero().flatten();
    const auto rows_of = [&](const torch::Tensor& tensor) {
      return tensor.defined() ? tensor.index_select(0, ids) : torch::Tensor();
    };
    table().scatter({.ids = ids,
                     .values = rows_of(weight_),
                     .first = rows_of(on(state.first)),
                     .second = rows_of(on(state.second)),
                     .steps = state.steps});
  }

  HasTable* has_table_;
  torch::Tensor weight_;
  std::unique_ptr<GatheredUpdate> dense_;
  std::optional<World> world_;
  std::optional<Rows> rows_;
};

}  // namespace

std::unique_ptr<WeightUpdate> make_sparse_server_update(torch::nn::Module& model,
                                                        const TrainOptions& options) {
  return std::make_unique<SparseServerUpdate>(model, options);
}

}  // namespace sullae::train
