// Inference requests of the Open Inference Protocol v2 over HTTP: JSON, with tensors as JSON or as
// binary data behind it (https://github.com/kserve/open-inference-protocol, and Triton's binary
// tensor data extension).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "http/budget.h"
#include "serve/tensors.h"

namespace sullae::serve {

/// Told how many elements a tensor of BYTES has before they are made, which take far more memory
/// than on their way; throws RequestError where they are too many.
using CheckRows = std::function<void(std::int64_t)>;

/// A request, with how its answer is to be written.
struct HttpInferRequest {
  InferRequest request;
  /// Outputs that are to be binary, by name; others are as `binary_by_default` says.
  std::map<std::string, bool> binary_outputs;
  bool binary_by_default = false;
};

/// `json_size` is the Inference-Header-Content-Length, where there is one: the JSON's length in
/// `body`, which binary data follows. Throws RequestError (invalid). `memory` is as for
/// parse_json(), `check` as for set_raw_content().
HttpInferRequest parse_infer_request(std::string_view body, std::optional<std::size_t> json_size,
                                     http::Reservation* memory = nullptr,
                                     const CheckRows& check = {});

/// Triton's raw binary request, whose Inference-Header-Content-Length is 0: the whole body is the
/// only one of `inputs`, the model's, of which one size may be open; of BYTES it is one element.
/// Outputs are binary. Throws RequestError (invalid).
HttpInferRequest parse_raw_request(std::string_view body,
                                   const std::vector<TensorSignature>& inputs);

struct HttpInferResponse {
  std::string body;
  /// Where binary data follows the JSON.
  std::optional<std::size_t> json_size;
};
/// With `memory`, throws as reserve_answer().
HttpInferResponse write_infer_response(const InferResponse& response,
                                       const HttpInferRequest& request,
                                       http::Reservation* memory = nullptr);

/// BYTES elements, each behind its length in 4 little-endian bytes, as binary tensors and gRPC's
/// raw contents have them.
std::string join_strings(const std::vector<std::string>& strings);
/// Throws RequestError (invalid); `name` is for the message.
std::vector<std::string> split_strings(std::string_view bytes, std::string_view name,
                                       const CheckRows& check = {});
/// Puts raw content into `tensor`, as its datatype says. Throws RequestError (invalid).
void set_raw_content(std::string_view bytes, InferTensor& tensor, const CheckRows& check = {});

}  // namespace sullae::serve
