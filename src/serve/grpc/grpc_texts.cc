#include "serve/grpc/grpc_texts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/request_error.h"
#include "serve/grpc/grpc_tensors.h"
#include "serve/protocol/json_tensors.h"

namespace sullae::serve {
namespace {

using inference::ModelInferResponse;
using nlohmann::json;

constexpr const char* kPrompt = "text_input";
constexpr const char* kTextOutput = "text_output";
constexpr const char* kFinishReason = "finish_reason";
constexpr const char* kTokens = "tokens";
constexpr std::array kOutputs{kTextOutput, kFinishReason, kTokens};

json value_of(const std::string& name, const inference::InferParameter& parameter) {
  using Parameter = inference::InferParameter;
  switch (parameter.parameter_choice_case()) {
    case Parameter::kBoolParam:
      return parameter.bool_param();
    case Parameter::kInt64Param:
      return parameter.int64_param();
    case Parameter::kUint64Param:
      return parameter.uint64_param();
    case Parameter::kDoubleParam:
      return parameter.double_param();
    case Parameter::kStringParam:
      return parameter.string_param();
    case Parameter::PARAMETER_CHOICE_NOT_SET:
      break;
  }
  refuse(fmt::format("parameter '{}' has no value", shorten(name)));
}

json value_of(const InferTensor& input) {
  if (element_count(input.shape, input.name) != 1)
    refuse(fmt::format("input '{}': expected one element, as one text goes on", input.name));
  return element_to_json(input, 0);
}

// What HTTP's extension has as a body.
json body_of(const InferRequest& request, json parameters) {
  json body = json::object();
  if (!request.id.empty()) body["id"] = request.id;
  for (const InferTensor& input : request.inputs) {
    json& of = input.name == kPrompt ? body : parameters;
    if (of.contains(input.name))
      refuse(fmt::format("'{}' is there twice: expected one input, or one parameter, of the name",
                         shorten(input.name)));
    of[input.name] = value_of(input);
  }
  body["parameters"] = std::move(parameters);
  return body;
}

const InferTensor& prompt_of(const InferRequest& request) {
  return *std::ranges::find(request.inputs, kPrompt, &InferTensor::name);
}

void check_outputs(const std::vector<std::string>& outputs) {
  for (const auto& name : outputs) {
    if (std::ranges::find(kOutputs, std::string_view(name)) == kOutputs.end())
      refuse(fmt::format("there is no output '{}' of a text that goes on; there are {}, {} and {}",
                         shorten(name), kTextOutput, kFinishReason, kTokens));
  }
}

}  // namespace

bool asks_for_text(const inference::ModelInferRequest& message) {
  return std::ranges::any_of(message.inputs(),
                             [](const auto& input) { return input.name() == kPrompt; });
}

TextRequest::TextRequest(inference::ModelInferRequest message, bool streamed)
    : by_pieces_(streamed) {
  json parameters = json::object();
  for (const auto& [name, value] : message.parameters()) {
    if (!name.starts_with("triton_")) parameters[name] = value_of(name, value);
  }
  const InferRequest request = from_grpc(std::move(message), [](std::int64_t texts) {
    if (texts != 1) refuse(fmt::format("expected one text, got {}", texts));
  });
  shape_ = prompt_of(request).shape;
  outputs_ = request.outputs;
  check_outputs(outputs_);
  json body = body_of(request, std::move(parameters));
  if (const auto stream = body["parameters"].find("stream"); stream != body["parameters"].end()) {
    if (!stream->is_boolean()) refuse("'stream': expected true or false");
    if (*stream && !streamed)
      refuse(
          "'stream': expected false: texts come whole from ModelInfer, and piece by piece from "
          "ModelStreamInfer");
    by_pieces_ = *stream;
    body["parameters"].erase(stream);
  }
  request_ = parse_generate_request(body, by_pieces_);
}

InferTensor TextRequest::output(const char* name, Datatype type) const {
  return {.name = name, .datatype = type, .shape = shape_};
}

void TextRequest::add(std::vector<InferTensor> outputs, ModelInferResponse& response) const {
  std::erase_if(outputs, [this](const InferTensor& output) {
    return !outputs_.empty() && std::ranges::find(outputs_, output.name) == outputs_.end();
  });
  to_grpc({.model_name = response.model_name(),
           .model_version = response.model_version(),
           .outputs = std::move(outputs)},
          response);
}

void TextRequest::add_text(const std::string& text, ModelInferResponse& response) const {
  InferTensor written = output(kTextOutput, Datatype::bytes);
  written.strings = {text};
  add({std::move(written)}, response);
}

void TextRequest::add_end(const Generated& generated, ModelInferResponse& response) const {
  add_text(generated.text, response);
  InferTensor reason = output(kFinishReason, Datatype::bytes);
  reason.strings = {generated.finish_reason};
  InferTensor tokens = output(kTokens, Datatype::int64);
  tokens.data.resize(sizeof generated.pieces);
  std::memcpy(tokens.data.data(), &generated.pieces, sizeof generated.pieces);
  add({std::move(reason), std::move(tokens)}, response);
}

void put_before(const ModelInferResponse& earlier, ModelInferResponse& later) {
  auto& text = *later.mutable_raw_output_contents(0);
  text = join_strings({split_strings(earlier.raw_output_contents(0), kTextOutput).at(0) +
                       split_strings(text, kTextOutput).at(0)});
}

}  // namespace sullae::serve
