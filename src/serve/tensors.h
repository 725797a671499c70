// Tensors as clients send and get them, under the names of the Open Inference Protocol.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace sullae::serve {

enum class Datatype {
  boolean,
  uint8,
  uint16,
  uint32,
  uint64,
  int8,
  int16,
  int32,
  int64,
  fp16,
  bf16,
  fp32,
  fp64,
  bytes
};

/// "FP32", "BYTES", …
const char* name_of(Datatype type);
/// Throws RequestError (invalid).
Datatype parse_datatype(std::string_view name);
/// Bytes of an element; 0 of `bytes`, whose elements differ.
std::size_t size_of(Datatype type);

/// A tensor with its elements in row-major order.
struct InferTensor {
  std::string name;
  Datatype datatype = Datatype::fp32;
  std::vector<std::int64_t> shape;
  /// The elements, little-endian; empty of `bytes`.
  std::string data = {};
  /// The elements of `bytes`.
  std::vector<std::string> strings = {};
};

/// Element `index` of a tensor whose elements are of type `Value`.
template <class Value>
Value element_at(const InferTensor& tensor, std::size_t index) {
  Value value{};
  std::memcpy(&value, tensor.data.data() + index * sizeof value, sizeof value);
  return value;
}

/// The product of a shape's sizes. Throws RequestError (invalid) for a negative size, or more
/// elements than a request can have; `name` is for the message.
std::size_t element_count(const std::vector<std::int64_t>& shape, std::string_view name);
/// Throws RequestError (invalid) where a tensor has other than as many elements as its shape says.
void check_element_count(const InferTensor& tensor);

/// Throws RequestError (invalid) where the parameter `name` of `tensor` ("input 'x'") asks for what
/// this server has not, so that the answer would be taken for something else: shared memory, and
/// classification by the server.
void check_parameter(std::string_view name, std::string_view tensor);
/// The same of a whole request: a time limit, a priority, a place in a sequence.
void check_request_parameter(std::string_view name);

struct InferRequest {
  std::string id;
  std::vector<InferTensor> inputs;
  /// The outputs that are asked for; empty for all.
  std::vector<std::string> outputs;
};

struct InferResponse {
  std::string model_name;
  std::string model_version;
  std::vector<InferTensor> outputs;
};

/// What a tensor of a model is called and looks like. -1 in `shape` stands for any size.
struct TensorSignature {
  std::string name;
  Datatype datatype = Datatype::fp32;
  std::vector<std::int64_t> shape;
};

}  // namespace sullae::serve
