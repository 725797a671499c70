#include "serve/grpc/grpc_tensors.h"

#include <fmt/format.h>

#include <iterator>
#include <type_traits>
#include <utility>

#include "base/request_error.h"
#include "serve/protocol/infer_json.h"

namespace sullae::serve {
namespace {

using Contents = inference::InferTensorContents;

template <class Element, class Field>
void append(const Field& field, InferTensor& tensor) {
  tensor.data.reserve(sizeof(Element) * static_cast<std::size_t>(field.size()));
  for (const auto value : field) {
    const auto element = static_cast<Element>(value);
    if constexpr (std::is_integral_v<Element>) {  // small ones come in wider fields
      if (static_cast<decltype(value)>(element) != value)
        refuse(
            fmt::format("input '{}': {} is no {}", tensor.name, value, name_of(tensor.datatype)));
    }
    tensor.data.append(reinterpret_cast<const char*>(&element), sizeof element);
  }
}

void take_contents(Contents& contents, InferTensor& tensor) {
  switch (tensor.datatype) {
    case Datatype::boolean:
      return append<bool>(contents.bool_contents(), tensor);
    case Datatype::int8:
      return append<std::int8_t>(contents.int_contents(), tensor);
    case Datatype::int16:
      return append<std::int16_t>(contents.int_contents(), tensor);
    case Datatype::int32:
      return append<std::int32_t>(contents.int_contents(), tensor);
    case Datatype::int64:
      return append<std::int64_t>(contents.int64_contents(), tensor);
    case Datatype::uint8:
      return append<std::uint8_t>(contents.uint_contents(), tensor);
    case Datatype::uint16:
      return append<std::uint16_t>(contents.uint_contents(), tensor);
    case Datatype::uint32:
      return append<std::uint32_t>(contents.uint_contents(), tensor);
    case Datatype::uint64:
      return append<std::uint64_t>(contents.uint64_contents(), tensor);
    case Datatype::fp32:
      return append<float>(contents.fp32_contents(), tensor);
    case Datatype::fp64:
      return append<double>(contents.fp64_contents(), tensor);
    case Datatype::bytes:
      tensor.strings.assign(std::make_move_iterator(contents.mutable_bytes_contents()->begin()),
                            std::make_move_iterator(contents.mutable_bytes_contents()->end()));
      return;
    case Datatype::fp16:
    case Datatype::bf16:
      refuse(
          fmt::format("input '{}': {} has no typed contents, send it as "
                      "raw_input_contents",
                      tensor.name, name_of(tensor.datatype)));
  }
}

// Before anything else: what is in shared memory has no contents here.
void check_parameters(const inference::ModelInferRequest& message) {
  for (const auto& [name, value] : message.parameters()) check_request_parameter(name);
  for (const auto& input : message.inputs()) {
    for (const auto& [name, value] : input.parameters())
      check_parameter(name, fmt::format("input '{}'", input.name()));
  }
  for (const auto& output : message.outputs()) {
    for (const auto& [name, value] : output.parameters())
      check_parameter(name, fmt::format("output '{}'", output.name()));
  }
}

}  // namespace

InferRequest from_grpc(inference::ModelInferRequest message, const CheckRows& check) {
  check_parameters(message);
  const int raw = message.raw_input_contents_size();
  if (raw > 0 && raw != message.inputs_size()) {
    refuse(
        fmt::format("raw_input_contents has {} entries, expected one for each of the "
                    "{} inputs",
                    raw, message.inputs_size()));
  }
  InferRequest request{.id = message.id(), .inputs = {}, .outputs = {}};
  for (int i = 0; i < message.inputs_size(); ++i) {
    auto& input = *message.mutable_inputs(i);
    InferTensor tensor{.name = input.name(),
                       .datatype = parse_datatype(input.datatype()),
                       .shape = {input.shape().begin(), input.shape().end()}};
    if (raw == 0) {
      if (tensor.datatype == Datatype::bytes) check(input.contents().bytes_contents_size());
      take_contents(*input.mutable_contents(), tensor);
    } else if (input.has_contents()) {
      refuse(fmt::format("input '{}' has both contents and raw_input_contents", tensor.name));
    } else if (tensor.datatype == Datatype::bytes) {
      tensor.strings = split_strings(message.raw_input_contents(i), tensor.name, check);
    } else {
      tensor.data = std::move(*message.mutable_raw_input_contents(i));
    }
    check_element_count(tensor);
    request.inputs.push_back(std::move(tensor));
  }
  for (const auto& output : message.outputs()) request.outputs.push_back(output.name());
  return request;
}

void to_grpc(InferResponse response, inference::ModelInferResponse& message) {
  message.set_model_name(response.model_name);
  message.set_model_version(response.model_version);
  for (InferTensor& tensor : response.outputs) {
    auto* output = message.add_outputs();
    output->set_name(tensor.name);
    output->set_datatype(name_of(tensor.datatype));
    for (const auto size : tensor.shape) output->add_shape(size);
    message.add_raw_output_contents(
        tensor.datatype == Datatype::bytes ? join_strings(tensor.strings) : std::move(tensor.data));
  }
}

}  // namespace sullae::serve
