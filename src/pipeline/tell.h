// Tells people, or programs, what becomes of a run.
#pragma once

#include <string>

#include "pipeline/definition.h"
#include "pipeline/record.h"

namespace sullae::pipeline {

/// Runs the command and posts to the webhook that `tell` has: a minute each at most (SULLAE_PIPELINE_TELL_TIMEOUT). What goes wrong there is
/// logged, and changes nothing about the run.
void tell(const Tell& tell, const Pipeline& pipeline, const std::string& event,
          const std::string& message, const RunRecord& run);

}  // namespace sullae::pipeline
