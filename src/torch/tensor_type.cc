#include "torch/tensor_type.h"

#include <fmt/format.h>

#include "sullae/error.h"

namespace sullae {

DataType data_type(torch::ScalarType type, std::string_view what) {
  switch (type) {
    case torch::kFloat32:
      return DataType::float32;
    case torch::kFloat64:
      return DataType::float64;
    case torch::kFloat16:
      return DataType::float16;
    case torch::kBFloat16:
      return DataType::bfloat16;
    case torch::kInt8:
      return DataType::int8;
    case torch::kInt16:
      return DataType::int16;
    case torch::kInt32:
      return DataType::int32;
    case torch::kInt64:
      return DataType::int64;
    case torch::kUInt8:
      return DataType::uint8;
    case torch::kBool:
      return DataType::boolean;
    default:
      throw InputError(
          fmt::format("{} has elements of type {}: expected float32, float64, float16, bfloat16, "
                      "int8, int16, int32, int64, uint8 or bool",
                      what, c10::toString(type)));
  }
}

}  // namespace sullae
