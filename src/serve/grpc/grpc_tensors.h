// Requests and answers as gRPC's messages.
#pragma once

#include "serve/proto/open_inference.pb.h"
#include "serve/tensors.h"

namespace sullae::serve {

/// Throws RequestError (invalid).
InferRequest from_grpc(const inference::ModelInferRequest& message);
/// Contents are raw, as Triton's are: they are copied once, whatever their type.
void to_grpc(const InferResponse& response, inference::ModelInferResponse& message);

}  // namespace sullae::serve
