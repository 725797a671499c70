// Requests and answers as gRPC's messages.
#pragma once

#include "serve/proto/open_inference.pb.h"
#include "serve/protocol/infer_json.h"
#include "serve/tensors.h"

namespace sullae::serve {

/// Raw contents move. Throws RequestError (invalid). `check` is as for split_strings().
InferRequest from_grpc(inference::ModelInferRequest message, const CheckRows& check);
/// Contents are raw, as Triton's are.
void to_grpc(InferResponse response, inference::ModelInferResponse& message);

}  // namespace sullae::serve
