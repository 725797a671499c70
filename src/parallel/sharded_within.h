// What a ShardedOptimizer, or ShardedUnits, have, from within.
#pragma once

#include "parallel/checkpoint/checkpoint.h"
#include "parallel/parameter_store.h"
#include "sullae/parallel/sharded_optimizer.h"
#include "sullae/parallel/sharded_units.h"

namespace sullae {

/// As long as that is there.
struct ShardedWithin {
  ParameterStore& store;
  Sharded sharded;
};
ShardedWithin within(ShardedOptimizer& optimizer);
ParameterStore& store_of(ShardedUnits& units);

}  // namespace sullae
