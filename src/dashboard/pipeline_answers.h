// What clients are told of pipelines.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "dashboard/catalogue.h"

namespace sullae::dashboard {

/// All, with their last runs.
nlohmann::json list_pipelines(Catalogue& catalogue);
/// The pipeline "id" and the steps of its run "run" (the last). Throws RequestError.
nlohmann::json show_pipeline(Catalogue& catalogue, const std::string& query);
/// Of the pipeline "id" and its run "run" (the last) what "step" has written, "from" a byte on; see
/// log_piece(). Throws RequestError, Error.
nlohmann::json step_log(Catalogue& catalogue, const std::string& query);

}  // namespace sullae::dashboard
