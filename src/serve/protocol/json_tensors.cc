#include "serve/protocol/json_tensors.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "base/dump_json.h"
#include "base/half.h"
#include "base/json_message.h"
#include "base/request_error.h"
#include "serve/protocol/base64.h"

namespace sullae::serve {
namespace {

using nlohmann::json;

[[noreturn]] void refuse_value(const InferTensor& tensor, const json& value) {
  refuse(fmt::format("tensor '{}': {} is no {}", tensor.name, shorten(dump_json(value)),
                     name_of(tensor.datatype)));
}

template <class Value>
void append(InferTensor& tensor, Value value) {
  tensor.data.append(reinterpret_cast<const char*>(&value), sizeof value);
}

template <class Value>
void append_integer(const json& value, InferTensor& tensor) {
  using Limits = std::numeric_limits<Value>;
  if (value.is_number_unsigned()) {
    if (value.get<std::uint64_t>() > static_cast<std::uint64_t>(Limits::max()))
      refuse_value(tensor, value);
    append(tensor, static_cast<Value>(value.get<std::uint64_t>()));
  } else if (value.is_number_integer()) {
    const auto number = value.get<std::int64_t>();  // negative
    if constexpr (Limits::is_signed) {
      if (number < static_cast<std::int64_t>(Limits::min())) refuse_value(tensor, value);
      append(tensor, static_cast<Value>(number));
    } else {
      refuse_value(tensor, value);
    }
  } else {
    refuse_value(tensor, value);
  }
}

float float_of(const json& value, const InferTensor& tensor) {
  if (!value.is_number() || !std::isfinite(value.get<float>())) refuse_value(tensor, value);
  return value.get<float>();
}

// 0 and 1 are taken too.
void append_boolean(const json& value, InferTensor& tensor) {
  if (value.is_number_integer() && (value.get<std::int64_t>() | 1) == 1)
    return append(tensor, static_cast<char>(value.get<std::int64_t>()));
  if (!value.is_boolean()) refuse_value(tensor, value);
  append(tensor, static_cast<char>(value.get<bool>()));
}

// What a text becomes takes many times its own bytes: a value is 16, its place in a list that grows
// up to twice as many more, a list, an object or a text has memory of its own.
constexpr std::size_t kElementBytes = 48;
constexpr std::size_t kContainerBytes = 96;
constexpr std::size_t kTextBytes = 64;

// Returns about how much memory parsing would take. Lists within lists within lists would be walked
// through by recursion, so their depth is limited.
std::size_t estimate(std::string_view text) {
  constexpr int kMost = 64;
  int depth = 0;
  bool in_string = false;
  std::size_t elements = 1;
  std::size_t containers = 0;
  std::size_t texts = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
      ++texts;
    } else if (c == ',') {
      ++elements;
    } else if (c == '[' || c == '{') {
      ++containers;
      if (++depth > kMost) refuse(fmt::format("the body is nested more than {} deep", kMost));
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return text.size() + elements * kElementBytes + containers * kContainerBytes + texts * kTextBytes;
}

void reserve(http::Reservation& memory, std::size_t bytes, const char* whose, const char* remedy) {
  constexpr std::size_t kMegabyte = std::size_t{1} << 20;
  const std::size_t all = memory.bytes() + bytes;
  if (all > memory.budget().limit())
    throw RequestError(
        Refusal::too_large,
        fmt::format("the {} JSON would take {} MB, which is more than all requests may "
                    "(--max-inflight-megabytes {}); {} tensors as binary data",
                    whose, all / kMegabyte, memory.budget().limit() / kMegabyte, remedy));
  if (!memory.grow_to(all)) throw RequestError(Refusal::unavailable, http::kNoMemoryLeft);
}

bool is_base64(const json& value) { return value.is_object() && value.contains("b64"); }

void append_element(const json& value, InferTensor& tensor) {
  switch (tensor.datatype) {
    case Datatype::boolean:
      return append_boolean(value, tensor);
    case Datatype::uint8:
      return append_integer<std::uint8_t>(value, tensor);
    case Datatype::uint16:
      return append_integer<std::uint16_t>(value, tensor);
    case Datatype::uint32:
      return append_integer<std::uint32_t>(value, tensor);
    case Datatype::uint64:
      return append_integer<std::uint64_t>(value, tensor);
    case Datatype::int8:
      return append_integer<std::int8_t>(value, tensor);
    case Datatype::int16:
      return append_integer<std::int16_t>(value, tensor);
    case Datatype::int32:
      return append_integer<std::int32_t>(value, tensor);
    case Datatype::int64:
      return append_integer<std::int64_t>(value, tensor);
    case Datatype::fp16: {
      const auto half = float_to_float16(float_of(value, tensor));
      if (!std::isfinite(float16_to_float(half))) refuse_value(tensor, value);
      return append(tensor, half);
    }
    case Datatype::bf16: {
      const auto half = float_to_bfloat16(float_of(value, tensor));
      if (!std::isfinite(bfloat16_to_float(half))) refuse_value(tensor, value);
      return append(tensor, half);
    }
    case Datatype::fp32:
      return append(tensor, float_of(value, tensor));
    case Datatype::fp64:
      if (!value.is_number()) refuse_value(tensor, value);
      return append(tensor, value.get<double>());
    case Datatype::bytes:
      if (is_base64(value) && value["b64"].is_string()) {
        auto bytes = decode_base64(value["b64"].get_ref<const std::string&>());
        if (!bytes)
          refuse(fmt::format("tensor '{}': a text after \"b64\" is no base64", tensor.name));
        tensor.strings.push_back(std::move(*bytes));
      } else if (value.is_string()) {
        tensor.strings.push_back(value.get<std::string>());
      } else {
        refuse_value(tensor, value);
      }
  }
}

// JSON has neither infinities nor NaN.
json real(double value) { return std::isfinite(value) ? json(value) : json(nullptr); }

}  // namespace

json parse_json(std::string_view text, http::Reservation* memory) {
  const std::size_t bytes = estimate(text);
  if (memory != nullptr) reserve(*memory, bytes, "body's", "send");
  try {
    return json::parse(text);
  } catch (const json::exception& error) {  // also a number beyond all doubles
    refuse(fmt::format("the body is no JSON: {}", json_message(error)));
  }
}

std::string shorten(std::string text) {
  constexpr std::size_t kShown = 60;
  if (text.size() > kShown) text = text.substr(0, kShown) + "…";
  return text;
}

void append_elements(const json& value, InferTensor& tensor) {
  if (value.is_array()) {
    for (const auto& part : value) append_elements(part, tensor);
  } else {
    append_element(value, tensor);
  }
}

std::vector<std::int64_t> shape_of(const json& value) {
  std::vector<std::int64_t> shape;
  for (const json* at = &value; at->is_array(); at = &at->front()) {
    shape.push_back(static_cast<std::int64_t>(at->size()));
    if (at->empty()) break;
  }
  return shape;
}

json element_to_json(const InferTensor& tensor, std::size_t i) {
  switch (tensor.datatype) {
    case Datatype::boolean:
      return element_at<char>(tensor, i) != 0;
    case Datatype::uint8:
      return element_at<std::uint8_t>(tensor, i);
    case Datatype::uint16:
      return element_at<std::uint16_t>(tensor, i);
    case Datatype::uint32:
      return element_at<std::uint32_t>(tensor, i);
    case Datatype::uint64:
      return element_at<std::uint64_t>(tensor, i);
    case Datatype::int8:
      return element_at<std::int8_t>(tensor, i);
    case Datatype::int16:
      return element_at<std::int16_t>(tensor, i);
    case Datatype::int32:
      return element_at<std::int32_t>(tensor, i);
    case Datatype::int64:
      return element_at<std::int64_t>(tensor, i);
    case Datatype::fp16:
      return real(float16_to_float(element_at<std::uint16_t>(tensor, i)));
    case Datatype::bf16:
      return real(bfloat16_to_float(element_at<std::uint16_t>(tensor, i)));
    case Datatype::fp32: {
      // The shortest number that is this float, and not the double that it also is.
      const auto value = element_at<float>(tensor, i);
      return real(std::isfinite(value) ? std::strtod(fmt::format("{}", value).c_str(), nullptr)
                                       : static_cast<double>(value));
    }
    case Datatype::fp64:
      return real(element_at<double>(tensor, i));
    case Datatype::bytes:
      return tensor.strings[i];
  }
  return nullptr;
}

void reserve_answer(http::Reservation& memory, std::size_t elements) {
  constexpr std::size_t kFew = 1000;
  if (elements > kFew) reserve(memory, elements * kElementBytes, "answer's", "ask for");
}

json elements_to_json(const InferTensor& tensor) {
  auto list = json::array();
  const std::size_t count = element_count(tensor.shape, tensor.name);
  for (std::size_t i = 0; i < count; ++i) list.push_back(element_to_json(tensor, i));
  return list;
}

json nested_to_json(const InferTensor& tensor, std::size_t dimension, std::size_t& first) {
  if (dimension == tensor.shape.size()) return element_to_json(tensor, first++);
  auto list = json::array();
  for (std::int64_t i = 0; i < tensor.shape[dimension]; ++i)
    list.push_back(nested_to_json(tensor, dimension + 1, first));
  return list;
}

}  // namespace sullae::serve
