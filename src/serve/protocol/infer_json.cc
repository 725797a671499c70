#include "serve/protocol/infer_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/dump_json.h"
#include "base/request_error.h"
#include "serve/protocol/json_tensors.h"

namespace sullae::serve {
namespace {

using nlohmann::json;

const json& member(const json& object, const char* name, json::value_t type, const char* where) {
  const auto found = object.find(name);
  if (found == object.end()) refuse(fmt::format("{}: \"{}\" is missing", where, name));
  if (found->type() != type)
    refuse(fmt::format("{}: \"{}\" has type {}, expected {}", where, name, found->type_name(),
                       json(type).type_name()));
  return *found;
}

// Absent parameters are the default ones.
bool truth(const json& object, const char* name, bool otherwise) {
  const auto parameters = object.find("parameters");
  if (parameters == object.end()) return otherwise;
  if (!parameters->is_object()) refuse("\"parameters\": expected an object");
  const auto found = parameters->find(name);
  if (found == parameters->end()) return otherwise;
  if (!found->is_boolean()) refuse(fmt::format("parameter \"{}\": expected true or false", name));
  return found->get<bool>();
}

template <class Check>
void for_parameters(const json& of, const Check& check) {
  const auto parameters = of.find("parameters");
  if (parameters == of.end() || !parameters->is_object()) return;
  for (const auto& [name, value] : parameters->items()) check(name);
}

void check_parameters(const json& of, const std::string& where) {
  for_parameters(of, [&](const std::string& name) { check_parameter(name, where); });
}

std::optional<std::size_t> binary_size(const json& input) {
  const auto parameters = input.find("parameters");
  if (parameters == input.end() || !parameters->is_object()) return std::nullopt;
  const auto found = parameters->find("binary_data_size");
  if (found == parameters->end()) return std::nullopt;
  if (!found->is_number_unsigned()) refuse("\"binary_data_size\": expected a number of bytes");
  return found->get<std::size_t>();
}

InferTensor parse_input(const json& input, std::string_view& binary, const CheckRows& check) {
  if (!input.is_object()) refuse("\"inputs\": expected objects");
  InferTensor tensor;
  tensor.name = member(input, "name", json::value_t::string, "input").get<std::string>();
  const auto where = fmt::format("input '{}'", tensor.name);
  tensor.datatype = parse_datatype(member(input, "datatype", json::value_t::string, where.c_str())
                                       .get_ref<const std::string&>());
  check_parameters(input, where);
  for (const json& size : member(input, "shape", json::value_t::array, where.c_str())) {
    if (!size.is_number_unsigned()) refuse(where + ": \"shape\": expected sizes of 0 and more");
    tensor.shape.push_back(size.get<std::int64_t>());
  }
  if (const auto bytes = binary_size(input)) {
    if (input.contains("data")) refuse(where + ": has both \"data\" and binary data");
    if (*bytes > binary.size())
      refuse(fmt::format("{}: {} bytes of binary data announced, {} are there", where, *bytes,
                         binary.size()));
    set_raw_content(binary.substr(0, *bytes), tensor, check);
    binary.remove_prefix(*bytes);
  } else {
    if (tensor.datatype == Datatype::fp16 || tensor.datatype == Datatype::bf16)
      refuse(fmt::format("{}: {} has no JSON form, send it as binary data", where,
                         name_of(tensor.datatype)));
    const json& data = member(input, "data", json::value_t::array, where.c_str());
    if (check && tensor.datatype == Datatype::bytes) check(static_cast<std::int64_t>(data.size()));
    append_elements(data, tensor);
  }
  check_element_count(tensor);
  return tensor;
}

void parse_outputs(const json& body, HttpInferRequest& parsed) {
  const auto outputs = body.find("outputs");
  if (outputs == body.end()) return;
  if (!outputs->is_array()) refuse("\"outputs\": expected a list");
  for (const json& output : *outputs) {
    if (!output.is_object()) refuse("\"outputs\": expected objects");
    const auto name = member(output, "name", json::value_t::string, "output").get<std::string>();
    check_parameters(output, fmt::format("output '{}'", name));
    parsed.binary_outputs[name] = truth(output, "binary_data", parsed.binary_by_default);
    parsed.request.outputs.push_back(name);
  }
}

}  // namespace

HttpInferRequest parse_infer_request(std::string_view body, std::optional<std::size_t> json_size,
                                     http::Reservation* memory, const CheckRows& check) {
  if (json_size && *json_size > body.size())
    refuse(fmt::format("Inference-Header-Content-Length is {}, but the body has {} bytes",
                       *json_size, body.size()));
  std::string_view binary = json_size ? body.substr(*json_size) : std::string_view();
  const json parsed_body = parse_json(json_size ? body.substr(0, *json_size) : body, memory);
  if (!parsed_body.is_object()) refuse("expected an object with \"inputs\"");
  for_parameters(parsed_body, check_request_parameter);
  HttpInferRequest parsed;
  if (const auto id = parsed_body.find("id"); id != parsed_body.end()) {
    if (!id->is_string()) refuse("\"id\": expected a text");
    parsed.request.id = id->get<std::string>();
  }
  parsed.binary_by_default = truth(parsed_body, "binary_data_output", false);
  for (const json& input : member(parsed_body, "inputs", json::value_t::array, "request"))
    parsed.request.inputs.push_back(parse_input(input, binary, check));
  if (!binary.empty())
    refuse(fmt::format("{} bytes of binary data belong to no input", binary.size()));
  parse_outputs(parsed_body, parsed);
  return parsed;
}

HttpInferRequest parse_raw_request(std::string_view body,
                                   const std::vector<TensorSignature>& inputs) {
  if (inputs.size() != 1)
    refuse(fmt::format(
        "Inference-Header-Content-Length is 0: the body is the only input, but the model "
        "has {}",
        inputs.size()));
  InferTensor tensor{.name = inputs.front().name,
                     .datatype = inputs.front().datatype,
                     .shape = inputs.front().shape};
  const bool is_bytes = tensor.datatype == Datatype::bytes;
  const std::size_t elements = is_bytes ? 1 : body.size() / size_of(tensor.datatype);
  std::int64_t row = 1;  // without the size that is open
  for (const std::int64_t size : tensor.shape) {
    if (__builtin_mul_overflow(row, std::max<std::int64_t>(size, 1), &row))
      refuse("Inference-Header-Content-Length is 0: the model's only input is too large");
  }
  std::int64_t left = static_cast<std::int64_t>(elements) / row;
  for (std::int64_t& size : tensor.shape) {
    if (size < 0) size = std::exchange(left, 1);
  }
  if (is_bytes) {
    tensor.strings.emplace_back(body);
  } else {
    tensor.data = body;
  }
  check_element_count(tensor);
  HttpInferRequest parsed;
  parsed.binary_by_default = true;
  parsed.request.inputs.push_back(std::move(tensor));
  return parsed;
}

HttpInferResponse write_infer_response(const InferResponse& response,
                                       const HttpInferRequest& request, http::Reservation* memory) {
  const auto is_binary = [&](const InferTensor& tensor) {
    const auto asked = request.binary_outputs.find(tensor.name);
    return asked == request.binary_outputs.end() ? request.binary_by_default : asked->second;
  };
  std::size_t elements = 0;
  for (const InferTensor& tensor : response.outputs) {
    if (!is_binary(tensor)) elements += element_count(tensor.shape, tensor.name);
  }
  if (memory != nullptr) reserve_answer(*memory, elements);
  json body = {{"model_name", response.model_name}, {"model_version", response.model_version}};
  if (!request.request.id.empty()) body["id"] = request.request.id;
  std::string binary;
  bool any_binary = false;
  auto outputs = json::array();
  for (const InferTensor& tensor : response.outputs) {
    json output = {
        {"name", tensor.name}, {"datatype", name_of(tensor.datatype)}, {"shape", tensor.shape}};
    if (is_binary(tensor)) {
      const std::string bytes =
          tensor.datatype == Datatype::bytes ? join_strings(tensor.strings) : tensor.data;
      output["parameters"] = {{"binary_data_size", bytes.size()}};
      binary += bytes;
      any_binary = true;
    } else {
      output["data"] = elements_to_json(tensor);
    }
    outputs.push_back(std::move(output));
  }
  body["outputs"] = std::move(outputs);
  HttpInferResponse written{.body = dump_json(body), .json_size = std::nullopt};
  if (any_binary) {
    written.json_size = written.body.size();
    written.body += binary;
  }
  return written;
}

std::string join_strings(const std::vector<std::string>& strings) {
  std::string bytes;
  for (const auto& text : strings) {
    const auto size = static_cast<std::uint32_t>(text.size());
    bytes.append(reinterpret_cast<const char*>(&size), sizeof size);
    bytes += text;
  }
  return bytes;
}

std::vector<std::string> split_strings(std::string_view bytes, std::string_view name,
                                       const CheckRows& check) {
  const auto each = [&](const auto& take) {
    for (std::string_view left = bytes; !left.empty();) {
      std::uint32_t size = 0;
      if (left.size() >= sizeof size) std::memcpy(&size, left.data(), sizeof size);
      if (left.size() < sizeof size || size > left.size() - sizeof size)
        refuse(fmt::format("tensor '{}': its BYTES end within an element", name));
      take(left.substr(sizeof size, size));
      left.remove_prefix(sizeof size + size);
    }
  };
  std::int64_t count = 0;
  each([&](std::string_view) { ++count; });
  if (check) check(count);
  std::vector<std::string> strings;
  strings.reserve(static_cast<std::size_t>(count));
  each([&](std::string_view element) { strings.emplace_back(element); });
  return strings;
}

void set_raw_content(std::string_view bytes, InferTensor& tensor, const CheckRows& check) {
  if (tensor.datatype == Datatype::bytes) {
    tensor.strings = split_strings(bytes, tensor.name, check);
  } else {
    tensor.data = bytes;
  }
}

}  // namespace sullae::serve
