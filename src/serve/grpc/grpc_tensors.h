// Requests and answers as gRPC's messages.
#pragma once

#include "serve/proto/open_inference.pb.h"
#include "serve/protocol/infer_json.h"
#include "serve/tensors.h"

namespace sullae::serve {

/// Throws RequestError (invalid). `check` is as for set_raw_content().
InferRequest from_grpc(const inference::ModelInferRequest& message, const CheckRows& check);
/// Contents are raw, as Triton's are: they are copied once, whatever their type.
void to_grpc(const InferResponse& response, inference::ModelInferResponse& message);

}  // namespace sullae::serve
