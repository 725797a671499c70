// The predict API of TensorFlow Serving (https://www.tensorflow.org/tfx/serving/api_rest).
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "base/request_error.h"
#include "serve/model/codec.h"

namespace sullae::serve {

/// "instances" (a list of rows) is answered by "predictions"; "inputs" (columns) by "outputs".
enum class PredictForm { rows, columns };
PredictForm predict_form(const nlohmann::json& body);

/// How many rows `body` has, before anything of them is looked at; 0 where that cannot be told yet.
std::int64_t rows_in(const nlohmann::json& body, PredictForm form);

/// The request that `body` holds, for a model of this kind. Throws RequestError (invalid).
InferRequest predict_request(const nlohmann::json& body, const Codec& codec);
nlohmann::json predict_response(const std::vector<InferTensor>& outputs, PredictForm form);

}  // namespace sullae::serve
