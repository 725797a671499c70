// Units' parameters: when they are whole, and where in between.
#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "parallel/parameter_store.h"
#include "parallel/shard_exchange.h"
#include "parallel/units/run_order.h"
#include "parallel/units/unit.h"
#include "parallel/units/unit_reductions.h"
#include "sullae/parallel/sharded_units.h"
#include "sullae/sullae.h"

namespace sullae {

/// Used by the thread that trains. What runs units, and their gradients, are collective.
class UnitParameters final : public ParameterStore {
 public:
  UnitParameters(const World& world, const std::optional<World>& replicas,
                 ShardedUnitsOptions options);
  ~UnitParameters() override;

  /// Collective; see ShardedUnits::shard().
  std::size_t add(torch::nn::Module& module, const std::string& name);
  /// For an optimizer, of which there is one; no more are added. Throws InputError where there are
  /// none.
  void give_to_optimizer();
  /// It is gone; another may come.
  void take_from_optimizer() { has_optimizer_ = false; }

  /// The unit's parameters are whole when it returns. `learns`: it will run again in each step.
  void gather(std::size_t unit, bool learns);
  /// It runs, and finish_backward() will be called for that, or, where backward does not come to
  /// where the run began, reduce(): its gradients go when all are there.
  void expect_backward(std::size_t unit) { ++expected_[unit]; }
  /// It has run: they are not needed any more.
  void release(std::size_t unit);
  /// It has run backward, as often as it ran: its gradients go where they belong, and its
  /// parameters are not needed any more.
  void finish_backward(std::size_t unit);

  const World& world() const override { return world_; }
  const World* replicas() const override { return replicas_ ? &*replicas_ : nullptr; }
  const ShardedUnitsOptions& options() const { return options_; }
  const std::vector<PlannedParameter>& all() const override { return all_; }
  std::vector<NamedState> others() const override { return others_; }
  bool is_trained(std::size_t parameter) const override { return places_[parameter].has_value(); }
  bool is_whole(std::size_t parameter) const override;
  std::vector<Part> parts_of(std::size_t parameter) const override;
  const torch::Tensor& piece_of(std::size_t parameter) const override { return pieces_[parameter]; }
  void reduce() override;
  void clear_gradients() override;
  void publish() override;
  void refresh() override;
  void take_weights(const torch::OrderedDict<std::string, torch::Tensor>& weights) override;

 private:
  // A unit's parameters, whole, or on their way.
  struct Residence {
    WholeMemory memory;
    bool shared = false;
    PendingGather arrival;
  };

  bool alone() const { return world_.size() == 1 && !replicas_; }
  std::vector<PlannedParameter> checked(const torch::OrderedDict<std::string, torch::Tensor>& all,
                                        const std::string& name);
  void start_equal(const torch::nn::Module& module) const;
  void make_buffers();
  void start_gather(std::size_t unit, WholeMemory memory, bool shared);
  void drop(std::size_t unit);
  void drop_all();
  void renew();

  World world_;
  std::optional<World> replicas_;  // of its own: gradients are averaged in the background
  ShardedUnitsOptions options_;
  bool closed_ = false;
  bool has_optimizer_ = false;
  std::vector<std::unique_ptr<Unit>> units_;  // stay where they are; none where this rank is alone
  std::set<const void*> seen_;                // parameters
  std::vector<PlannedParameter> all_;
  std::vector<PlannedParameter> frozen_;
  std::vector<NamedState> others_;     // of units: buffers, and what is frozen and has gaps
  std::vector<torch::Tensor> pieces_;  // by parameter
  // By parameter: its unit, and which of its; none: it is not trained.
  std::vector<std::optional<std::pair<std::size_t, std::size_t>>> places_;
  RunOrder order_;
  std::vector<std::optional<Residence>> residences_;  // by unit
  std::vector<int> expected_;                // by unit: runs that backward has yet to come to
  std::unique_ptr<ShardExchange> exchange_;  // from the first run on
  std::vector<WholeMemory> free_;
  UnitReductions reductions_;
};

}  // namespace sullae
