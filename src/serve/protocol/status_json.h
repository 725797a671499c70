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
/// GET v2/models/<model>/config, as Triton answers it: what there is of it.
nlohmann::json model_configuration(const std::string& name, const Model& model);
/// GET v2/models/<model>/stats, as Triton answers it: of all versions that are loaded, or of
/// `version`.
nlohmann::json model_statistics(const std::vector<ModelStatus>& models, const std::string& version);
/// POST v2/repository/index, as Triton answers it; with `ready`, of versions that answer alone.
nlohmann::json repository_index(const std::vector<ModelStatus>& models, bool ready);
/// What this server says of the repository extension's calls that it does not follow.
inline constexpr const char* kNoLoadParameters =
    "there is no \"parameters\" of a load: the model's config.toml says how it is served";
inline constexpr const char* kNoUnload =
    "models are not unloaded by a call: take the model's folder out of the repository, which the "
    "server follows";

/// GET v1/models/<model>, as TensorFlow Serving answers it.
nlohmann::json version_states(const ModelStatus& status);
/// GET v1/models: all there is to see, for the page and for operators.
nlohmann::json overview(const std::vector<ModelStatus>& models);

}  // namespace sullae::serve
