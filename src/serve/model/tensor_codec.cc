#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>

#include "base/copy.h"
#include "base/hash.h"
#include "base/request_error.h"
#include "serve/model/codec.h"
#include "serve/model/tensor_types.h"

namespace sullae::serve {
namespace {

bool fits(torch::IntArrayRef shape, const std::vector<std::int64_t>& expected) {
  return shape.size() == expected.size() &&
         std::ranges::equal(shape, expected,
                            [](auto size, auto good) { return good == -1 || size == good; });
}

class TensorCodec final : public Codec {
 public:
  TensorCodec(std::vector<TensorSignature> inputs, std::vector<TensorSignature> outputs,
              bool batched)
      : inputs_(std::move(inputs)), outputs_(std::move(outputs)), batched_(batched) {}

  bool is_batched() const override { return batched_; }
  const std::vector<TensorSignature>& inputs() const override { return inputs_; }
  const std::vector<TensorSignature>& outputs() const override { return outputs_; }

  using Codec::decode;
  Rows decode(const InferRequest& request, std::chrono::steady_clock::time_point) const override {
    for (const auto& input : request.inputs) {
      if (std::ranges::none_of(inputs_, [&](const auto& s) { return s.name == input.name; }))
        refuse(fmt::format("there is no input '{}': expected {}", input.name, names()));
      if (std::ranges::count(request.inputs, input.name, &InferTensor::name) > 1)
        refuse(fmt::format("input '{}' is there twice", input.name));
    }
    Rows rows{.count = 1, .key = kFnvStart};
    for (const auto& signature : inputs_) {
      const auto found = std::ranges::find_if(
          request.inputs, [&](const auto& input) { return input.name == signature.name; });
      if (found == request.inputs.end())
        refuse(fmt::format("input '{}' is missing: expected {}", signature.name, names()));
      rows.tensors.push_back(take(*found, signature));
    }
    if (!batched_) return rows;
    for (const auto& tensor : rows.tensors) {
      if (tensor.dim() == 0 || tensor.size(0) != rows.tensors[0].size(0))
        refuse("inputs differ in their first dimension, the batch");
      const auto rest = tensor.sizes().slice(1);
      rows.key = fnv1a({reinterpret_cast<const char*>(rest.data()), rest.size() * sizeof(rest[0])},
                       rows.key);
    }
    rows.count = rows.tensors.empty() ? 1 : rows.tensors[0].size(0);
    return rows;
  }

  // Of a feature for each input, by its name.
  Rows decode(const data::Example& sample) const override {
    InferRequest request;
    for (const auto& signature : inputs_) request.inputs.push_back(input_of(sample, signature));
    try {
      return decode(request, std::chrono::steady_clock::time_point::max());
    } catch (const RequestError& error) {
      throw data::DamagedRecord(error.what());
    }
  }

  std::vector<torch::jit::IValue> collate(const std::vector<const Rows*>& rows) const override {
    std::vector<torch::jit::IValue> inputs;
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      std::vector<torch::Tensor> parts;
      for (const Rows* of_request : rows) parts.push_back(of_request->tensors[i]);
      inputs.emplace_back(parts.size() == 1 ? parts[0] : torch::cat(parts));
    }
    return inputs;
  }

  std::vector<InferTensor> encode(const std::vector<torch::Tensor>& outputs) const override {
    if (outputs.size() < outputs_.size())
      throw Error(fmt::format("the model returned {} outputs, config.toml says {}", outputs.size(),
                              outputs_.size()));
    std::vector<InferTensor> tensors;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const auto value = outputs[i].to(torch::kCPU);
      if (i < outputs_.size()) check_declared(outputs_[i], value);
      tensors.push_back(
          {.name = i < outputs_.size() ? outputs_[i].name : fmt::format("OUTPUT__{}", i),
           .datatype = datatype_of(value.scalar_type()),
           .shape = value.sizes().vec(),
           .data = bytes_of(value)});
    }
    return tensors;
  }

  InferRequest example(std::int64_t rows) const override {
    InferRequest request;
    for (const auto& signature : inputs_) {
      auto shape = signature.shape;
      if (shape.empty()) return {};
      shape[0] = batched_ ? rows : shape[0];
      if (std::ranges::any_of(shape, [](auto size) { return size < 0; })) return {};
      const auto bytes = element_count(shape, signature.name) * size_of(signature.datatype);
      request.inputs.push_back({.name = signature.name,
                                .datatype = signature.datatype,
                                .shape = std::move(shape),
                                .data = std::string(bytes, '\0')});
    }
    return request;
  }

 private:
  // In the form of the signature, in which one size may be open besides that of the batch.
  InferTensor input_of(const data::Example& sample, const TensorSignature& signature) const {
    const auto found = sample.features.find(signature.name);
    if (found == sample.features.end())
      throw data::DamagedRecord(fmt::format("has no feature '{}'", signature.name));
    torch::Tensor values;
    if (const auto* const numbers = std::get_if<data::Values<float>>(&found->second))
      values = torch::tensor(at::ArrayRef(numbers->data(), numbers->size()), torch::kFloat32);
    if (const auto* const numbers = std::get_if<data::Values<std::int64_t>>(&found->second))
      values = torch::tensor(at::ArrayRef(numbers->data(), numbers->size()), torch::kInt64);
    if (!values.defined())
      throw data::DamagedRecord(
          fmt::format("feature '{}' is bytes, expected numbers", signature.name));
    auto shape = signature.shape;
    if (shape.empty()) shape = {values.numel()};
    if (batched_ && !signature.shape.empty()) shape[0] = 1;
    std::int64_t known = 1;
    for (const std::int64_t size : shape) known *= size < 0 ? 1 : size;
    for (std::int64_t& size : shape) {
      if (size >= 0 || known == 0) continue;
      size = values.numel() / known;
      known *= size;
    }
    if (known != values.numel())
      throw data::DamagedRecord(fmt::format("feature '{}' has {} numbers, expected [{}]",
                                            signature.name, values.numel(),
                                            fmt::join(signature.shape, ", ")));
    values = converted(values, signature);
    return {.name = signature.name,
            .datatype = signature.datatype,
            .shape = std::move(shape),
            .data = bytes_of(values)};
  }

  // What the input's type cannot hold would be another number.
  static torch::Tensor converted(const torch::Tensor& values, const TensorSignature& signature) {
    const auto type = scalar_type_of(signature.datatype);
    const auto result = values.to(type);
    const bool is_real = torch::isFloatingType(type);
    const auto is_lost = is_real ? result.isfinite().logical_not().logical_and(values.isfinite())
                                 : result.to(values.scalar_type()).ne(values);
    if (is_lost.any().item<bool>()) {
      const auto first = values.masked_select(is_lost)[0];
      const auto text = first.is_floating_point() ? fmt::format("{}", first.item<double>())
                                                  : fmt::format("{}", first.item<std::int64_t>());
      throw data::DamagedRecord(fmt::format("feature '{}': {} is no {}", signature.name, text,
                                            name_of(signature.datatype)));
    }
    return result;
  }

  torch::Tensor take(const InferTensor& input, const TensorSignature& signature) const {
    // A signature without a shape is one that was made up: nothing is known of the input.
    if (!signature.shape.empty()) {
      if (input.datatype != signature.datatype)
        refuse(fmt::format("input '{}': expected {}, got {}", input.name,
                           name_of(signature.datatype), name_of(input.datatype)));
      if (!fits(input.shape, signature.shape))
        refuse(fmt::format("input '{}': shape [{}], expected [{}]", input.name,
                           fmt::join(input.shape, ", "), fmt::join(signature.shape, ", ")));
    }
    auto tensor = torch::empty(input.shape, scalar_type_of(input.datatype));
    copy_bytes(tensor.data_ptr(), input.data.data(), input.data.size());
    return tensor;
  }

  static void check_declared(const TensorSignature& declared, const torch::Tensor& value) {
    if (datatype_of(value.scalar_type()) == declared.datatype &&
        fits(value.sizes(), declared.shape))
      return;
    throw Error(fmt::format("output '{}': the model returned {} [{}], config.toml says {} [{}]",
                            declared.name, name_of(datatype_of(value.scalar_type())),
                            fmt::join(value.sizes(), ", "), name_of(declared.datatype),
                            fmt::join(declared.shape, ", ")));
  }

  std::string names() const {
    std::string text;
    for (const auto& signature : inputs_)
      text += fmt::format("{}'{}'", text.empty() ? "" : ", ", signature.name);
    return text;
  }

  std::vector<TensorSignature> inputs_;
  std::vector<TensorSignature> outputs_;
  bool batched_;
};

}  // namespace

std::unique_ptr<Codec> make_tensor_codec(std::vector<TensorSignature> inputs,
                                         std::vector<TensorSignature> outputs, bool batched) {
  return std::make_unique<TensorCodec>(std::move(inputs), std::move(outputs), batched);
}

}  // namespace sullae::serve
