// Texts that go on, as gRPC's messages: what HTTP's generate extension has as members of an object
// are tensors of one element here, or parameters of the request, as clients of Triton's language
// models send them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "serve/generation/generate.h"
#include "serve/proto/open_inference.pb.h"

namespace sullae::serve {

/// Whether it has an input "text_input".
bool asks_for_text(const inference::ModelInferRequest& message);

/// Such a request.
class TextRequest {
 public:
  /// `streamed`: whether it came on a stream. Throws RequestError (invalid).
  TextRequest(inference::ModelInferRequest message, bool streamed);

  const GenerateRequest& generate() const { return request_; }
  /// Whether what is written is sent as soon as it is there.
  bool by_pieces() const { return by_pieces_; }

  /// Adds "text_output", in the shape that the prompt had.
  void add_text(const std::string& text, inference::ModelInferResponse& response) const;
  /// Adds that, "finish_reason" and "tokens".
  void add_end(const Generated& generated, inference::ModelInferResponse& response) const;

 private:
  InferTensor output(const char* name, Datatype type) const;
  void add(std::vector<InferTensor> outputs, inference::ModelInferResponse& response) const;

  GenerateRequest request_;
  bool by_pieces_ = false;
  std::vector<std::int64_t> shape_;
  std::vector<std::string> outputs_;  // that are asked for; empty for all
};

/// Puts the text of `earlier` in front of that of `later`; both have one.
void put_before(const inference::ModelInferResponse& earlier, inference::ModelInferResponse& later);

}  // namespace sullae::serve
