#include "serve/protocol/predict.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/request_error.h"
#include "serve/protocol/json_tensors.h"

namespace sullae::serve {
namespace {

using nlohmann::json;

bool is_named(const json& value) { return value.is_object() && !value.contains("b64"); }

const json& find(const json& object, const TensorSignature& input) {
  const auto found = object.find(input.name);
  if (found == object.end()) refuse(fmt::format("input '{}' is missing", input.name));
  return *found;
}

void check_names(const json& object, const Codec& codec) {
  for (const auto& item : object.items()) {
    if (std::ranges::none_of(codec.inputs(), [&](const auto& s) { return s.name == item.key(); }))
      refuse(fmt::format("there is no input '{}'", item.key()));
  }
}

// Lists of one depth are as long as the first of them is.
void check_shape(const json& value, const InferTensor& tensor, std::size_t depth = 0) {
  const bool is_list = depth < tensor.shape.size();
  if (value.is_array() != is_list ||
      (is_list && value.size() != static_cast<std::size_t>(tensor.shape[depth])))
    refuse(fmt::format("input '{}': lists that differ in length or depth: expected [{}] throughout",
                       tensor.name, fmt::join(tensor.shape, ", ")));
  if (!is_list) return;
  for (const json& part : value) check_shape(part, tensor, depth + 1);
}

InferTensor to_tensor(const TensorSignature& input, const json& value, const Codec& codec) {
  InferTensor tensor{.name = input.name, .datatype = input.datatype, .shape = shape_of(value)};
  // A model for encoded images takes pixels too.
  if (tensor.datatype == Datatype::bytes && tensor.shape.size() > 1 && codec.decodes_slowly())
    tensor.datatype = Datatype::fp32;
  check_shape(value, tensor);
  append_elements(value, tensor);
  check_element_count(tensor);
  return tensor;
}

const json& rows_of(const json& body) {
  const json& rows = body["instances"];
  if (!rows.is_array() || rows.empty())
    refuse("\"instances\": expected a list of at least one instance");
  return rows;
}

}  // namespace

PredictForm predict_form(const json& body) {
  if (!body.is_object() || body.contains("instances") == body.contains("inputs"))
    refuse("expected an object with either \"instances\" or \"inputs\"");
  if (const auto signature = body.find("signature_name");
      signature != body.end() && *signature != "serving_default")
    refuse("\"signature_name\": there is one, \"serving_default\"");
  return body.contains("instances") ? PredictForm::rows : PredictForm::columns;
}

std::int64_t rows_in(const json& body, PredictForm form) {
  const json& rows = body[form == PredictForm::rows ? "instances" : "inputs"];
  return rows.is_array() ? static_cast<std::int64_t>(rows.size()) : 0;
}

InferRequest predict_request(const json& body, const Codec& codec) {
  InferRequest request;
  const auto& inputs = codec.inputs();
  if (predict_form(body) == PredictForm::rows) {
    const json& rows = rows_of(body);
    for (const auto& row : rows) {
      if (is_named(row)) check_names(row, codec);
      if (is_named(row) != is_named(rows.front()))
        refuse("\"instances\": expected all to be objects, or none");
    }
    for (const auto& input : inputs) {
      auto column = json::array();
      for (const auto& row : rows) {
        if (!is_named(row) && inputs.size() != 1)
          refuse(fmt::format("\"instances\": expected objects with the {} inputs' names",
                             inputs.size()));
        column.push_back(is_named(row) ? find(row, input) : row);
      }
      request.inputs.push_back(to_tensor(input, column, codec));
    }
    return request;
  }
  const json& columns = body["inputs"];
  if (is_named(columns)) check_names(columns, codec);
  for (const auto& input : inputs) {
    if (!is_named(columns) && inputs.size() != 1)
      refuse(
          fmt::format("\"inputs\": expected an object with the {} inputs' names", inputs.size()));
    request.inputs.push_back(
        to_tensor(input, is_named(columns) ? find(columns, input) : columns, codec));
  }
  return request;
}

json predict_response(const std::vector<InferTensor>& outputs, PredictForm form) {
  const auto whole = [](const InferTensor& tensor) {
    std::size_t first = 0;
    return nested_to_json(tensor, 0, first);
  };
  if (form == PredictForm::columns) {
    if (outputs.size() == 1) return {{"outputs", whole(outputs[0])}};
    auto named = json::object();
    for (const auto& output : outputs) named[output.name] = whole(output);
    return {{"outputs", named}};
  }
  auto predictions = json::array();
  for (const auto& output : outputs) {
    if (output.shape.empty() || output.shape[0] != outputs[0].shape[0])
      refuse(fmt::format("output '{}' has not one entry a row: ask with \"inputs\"", output.name));
  }
  const std::int64_t rows = outputs.empty() || outputs[0].shape.empty() ? 0 : outputs[0].shape[0];
  std::vector<std::size_t> next(outputs.size(), 0);
  for (std::int64_t row = 0; row < rows; ++row) {
    auto prediction = json::object();
    for (std::size_t i = 0; i < outputs.size(); ++i)
      prediction[outputs[i].name] = nested_to_json(outputs[i], 1, next[i]);
    predictions.push_back(outputs.size() == 1 ? prediction[outputs[0].name] : prediction);
  }
  return {{"predictions", predictions}};
}

}  // namespace sullae::serve
