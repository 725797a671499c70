#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/torch.h>

#include "base/request_error.h"
#include "serve/model/codec.h"

namespace sullae::serve {
std::string bytes_of(const torch::Tensor& tensor) {
  const auto values = tensor.contiguous();
  return {static_cast<const char*>(values.data_ptr()), values.nbytes()};
}

ClassOutput::ClassOutput(const train::ModelDescription& description) : names_(description.classes) {
  const auto found = description.numbers.find("classes");
  const auto classes = found == description.numbers.end()
                           ? static_cast<std::int64_t>(names_.size())
                           : static_cast<std::int64_t>(found->second);
  signatures_ = {{"label", Datatype::bytes, {-1}},
                 {"probability", Datatype::fp32, {-1}},
                 {"probabilities", Datatype::fp32, {-1, classes > 0 ? classes : -1}}};
}

std::vector<InferTensor> ClassOutput::encode(const torch::Tensor& scores) const {
  if (scores.dim() != 2)
    throw Error(fmt::format(
        "the model returned a tensor of {} dimensions, expected [batch, classes]", scores.dim()));
  if (const auto classes = signatures_.back().shape.back();
      classes >= 0 && scores.size(1) != classes)
    throw Error(fmt::format("the model returned scores of {} classes, and there are names for {}",
                            scores.size(1), classes));
  const auto probabilities = torch::softmax(scores.to(torch::kCPU, torch::kFloat32), 1);
  const auto [best, labels] = probabilities.max(1);
  InferTensor label{.name = "label", .datatype = Datatype::bytes, .shape = {scores.size(0)}};
  const auto* const numbers = labels.data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < labels.size(0); ++i) {
    label.strings.push_back(train::class_name(names_, static_cast<std::size_t>(numbers[i])));
  }
  return {std::move(label),
          {.name = "probability", .shape = {scores.size(0)}, .data = bytes_of(best)},
          {.name = "probabilities",
           .shape = {scores.size(0), scores.size(1)},
           .data = bytes_of(probabilities)}};
}

std::vector<std::string> ClassOutput::labels() const {
  std::vector<std::string> labels;
  const std::int64_t classes = signatures_.back().shape.back();
  for (std::int64_t number = 0; number < classes; ++number)
    labels.push_back(train::class_name(names_, static_cast<std::size_t>(number)));
  return labels;
}

const InferTensor& only_input(const InferRequest& request, const std::string& name) {
  if (request.inputs.size() != 1 || request.inputs[0].name != name) {
    std::string given;
    for (const auto& input : request.inputs)
      given += fmt::format("{}'{}'", given.empty() ? "" : ", ", input.name);
    refuse(fmt::format("expected one input, '{}', got {}", name, given.empty() ? "none" : given));
  }
  const InferTensor& input = request.inputs[0];
  if (input.datatype == Datatype::bytes && input.shape.size() > 1 &&
      element_count(input.shape, name) != static_cast<std::size_t>(input.shape[0]))
    refuse(fmt::format("input '{}': expected one element for each row, got [{}]", name,
                       fmt::join(input.shape, ", ")));
  return input;
}

}  // namespace sullae::serve
