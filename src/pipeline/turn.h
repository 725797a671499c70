// Whose turn it is: a pipeline has one run at a time.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "base/fd.h"
#include "pipeline/definition.h"
#include "pipeline/state.h"
#include "pipeline/tell.h"

namespace sullae::pipeline {

struct Turn {
  /// Of the pipeline, while it is held.
  UniqueFd lock;
  /// Tells whom the pipeline names, and may still be about to.
  std::unique_ptr<Teller> teller;
  /// When it was told that the run would be late, if it was meanwhile.
  std::optional<Time> foreseen_late;
};

/// Waits until no other run is on its way, or does what the pipeline's `overlap` says instead. Of
/// those that wait the earliest goes first. Says on standard output what it waits for, and tells of
/// a deadline that cannot be kept any more. Nothing where the run is not to be, or `is_to_end`.
/// Throws TimeoutError after SULLAE_PIPELINE_QUEUE_TIMEOUT, a day.
std::optional<Turn> wait_for_turn(const Pipeline& pipeline, const State& state, Time scheduled,
                                  const std::function<bool()>& is_to_end);

}  // namespace sullae::pipeline
