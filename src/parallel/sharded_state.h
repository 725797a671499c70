// The optimizer's state of a parameter, of a piece of it or of the whole, and its way from rank to
// rank.
#pragma once

#include <torch/optim/optimizer.h>
#include <torch/types.h>

#include <map>
#include <memory>
#include <string>

#include "parallel/parameter_store.h"
#include "sullae/parallel/sharded_optimizer.h"
#include "sullae/sullae.h"

namespace sullae {

/// What a parameter's state holds, by name: tensors of as many elements as the parameter, or piece,
/// has are moments; others (step counts) belong to all of its elements. Empty: no state.
using StateTensors = std::map<std::string, c10::IValue>;

StateTensors state_of(const torch::optim::Optimizer& optimizer, const torch::Tensor& parameter);
/// `prototype`: any state of this kind of optimizer.
void set_state(torch::optim::Optimizer& optimizer, const torch::Tensor& parameter,
               const StateTensors& tensors, const torch::optim::OptimizerParamState& prototype);

/// Any state that an optimizer of `make` with the options of `like` keeps of a parameter; null for
/// none.
std::unique_ptr<torch::optim::OptimizerParamState> make_prototype(
    const ShardedOptimizer::Maker& make, const torch::optim::Optimizer& like);

/// For messages.
std::string to_bytes(const StateTensors& tensors);
StateTensors from_bytes(std::string bytes);

/// Whether `value` is the moment of so many elements.
bool is_moment(const c10::IValue& value, std::int64_t elements);

/// What is updated of parameter number `index`, whole on `root`; undefined elsewhere. Collective.
torch::Tensor gather_piece(const ParameterStore& sharded, std::size_t index, int root);
/// Of parameter number `index` the whole state on `root`; empty elsewhere. Collective.
StateTensors gather_state(const ParameterStore& sharded, std::size_t index,
                          const torch::optim::Optimizer& optimizer, int root);
/// The same with moments that have a type and no elements.
StateTensors gather_outline(const ParameterParts& sharded, std::size_t index,
                            const torch::optim::Optimizer& optimizer, int root);
/// The opposite of gather_state(): root's `whole`, ignored elsewhere, of which each rank gets its
/// piece's. Collective.
StateTensors scatter_state(const ParameterStore& sharded, std::size_t index,
                           const StateTensors& whole, int root);

/// Group for group; of groups that one has and the other not, nothing.
void copy_options(const torch::optim::Optimizer& from, torch::optim::Optimizer& to);
/// Those of root's `from`, ignored elsewhere, on every rank. Collective.
void scatter_options(const torch::optim::Optimizer* from, torch::optim::Optimizer& to,
                     const World& world, int root);

}  // namespace sullae
