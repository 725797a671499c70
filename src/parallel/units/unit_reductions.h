// Gradients of units on their way to the ranks that keep them.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "parallel/sharded_reduction.h"
#include "parallel/units/unit.h"
#include "sullae/sullae.h"

namespace sullae {

/// Used by the thread that trains. What it starts writes to its unit until it has ended.
class UnitReductions {
 public:
  /// `replicas`: ranks that keep the same parts, whose gradients are averaged too.
  UnitReductions(const World& world, const std::optional<World>& replicas);
  /// Waits until what is under way has ended.
  ~UnitReductions();
  UnitReductions(const UnitReductions&) = delete;
  UnitReductions& operator=(const UnitReductions&) = delete;

  /// Before the first; `most` bytes for a unit. `exchange` outlives this. Collective.
  void make_buffers(const ShardExchange& exchange, std::size_t most);
  /// Takes the gradients of a unit's parameters. Throws InputError for one that is sparse.
  /// Collective.
  void start(Unit& unit);
  /// Throws the first thing that one of them threw, once all have ended.
  void wait();

 private:
  struct Reduction;

  World world_;
  std::optional<World> replicas_;
  const ShardExchange* exchange_ = nullptr;
  std::optional<GradientBuffers> buffers_;
  std::vector<std::pair<Handle, std::shared_ptr<Reduction>>> under_way_;
};

}  // namespace sullae
