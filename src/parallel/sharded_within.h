// What a ShardedOptimizer has, from within.
#pragma once

#include "parallel/checkpoint/checkpoint.h"
#include "parallel/parameter_store.h"
#include "sullae/parallel/sharded_optimizer.h"

namespace sullae {

/// As long as that is there.
struct ShardedWithin {
  ParameterStore& store;
  Sharded sharded;
};
ShardedWithin within(ShardedOptimizer& optimizer);

}  // namespace sullae
