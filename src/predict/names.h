// What predictions' columns are called.
#pragma once

#include <string>
#include <vector>

#include "predict/options.h"

namespace sullae::predict {

/// Throws InputError where two would be called the same, and for outputs that the model does not
/// have. `outputs`: those that it says it has; `own`: what each prediction has besides.
void check_names(const PredictOptions& options, const std::vector<std::string>& outputs,
                 const std::vector<std::string>& own);

}  // namespace sullae::predict
