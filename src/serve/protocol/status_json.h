// The state of the server and its models in JSON, in the forms of the protocols that are spoken.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "serve/repository/served_model.h"

namespace sullae::serve {

/// GET v2.
nlohmann::json server_metadata();
/// The names of the protocol's extensions that the server has.
const std::vector<std::string>& server_extensions();
/// GET v2/models/<model>.
nlohmann::json model_metadata(const ModelStatus& status, const Model& model);
/// POST v2/repository/index, as Triton answers it.
nlohmann::json repository_index(const std::vector<ModelStatus>& models);
/// GET v1/models/<model>, as TensorFlow Serving answers it.
nlohmann::json version_states(const ModelStatus& status);
/// GET v1/models: all there is to see, for the page and for operators.
nlohmann::json overview(const std::vector<ModelStatus>& models);

}  // namespace sullae::serve
