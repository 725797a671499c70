#include "serve/model/tensor_types.h"

#include <fmt/format.h>

#include <utility>

#include "base/request_error.h"

namespace sullae::serve {
namespace {

constexpr std::pair<Datatype, torch::ScalarType> kTorchTypes[] = {
    {Datatype::boolean, torch::kBool}, {Datatype::uint8, torch::kUInt8},
    {Datatype::int8, torch::kInt8},    {Datatype::int16, torch::kInt16},
    {Datatype::int32, torch::kInt32},  {Datatype::int64, torch::kInt64},
    {Datatype::fp16, torch::kFloat16}, {Datatype::bf16, torch::kBFloat16},
    {Datatype::fp32, torch::kFloat32}, {Datatype::fp64, torch::kFloat64}};

}  // namespace

torch::ScalarType scalar_type_of(Datatype type) {
  for (const auto& [protocol, torch] : kTorchTypes) {
    if (protocol == type) return torch;
  }
  refuse(fmt::format("TorchScript models take no {}", name_of(type)));
}

Datatype datatype_of(torch::ScalarType type) {
  for (const auto& [protocol, torch] : kTorchTypes) {
    if (torch == type) return protocol;
  }
  throw Error(fmt::format("the model returned a tensor of type {}, which the protocol has not",
                          c10::toString(type)));
}

}  // namespace sullae::serve
