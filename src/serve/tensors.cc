#include "serve/tensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

#include "base/request_error.h"

namespace sullae::serve {
namespace {

struct TypeRow {
  Datatype type;
  const char* name;
  std::size_t size;
};
constexpr std::array<TypeRow, 14> kTypes = {{{Datatype::boolean, "BOOL", 1},
                                             {Datatype::uint8, "UINT8", 1},
                                             {Datatype::uint16, "UINT16", 2},
                                             {Datatype::uint32, "UINT32", 4},
                                             {Datatype::uint64, "UINT64", 8},
                                             {Datatype::int8, "INT8", 1},
                                             {Datatype::int16, "INT16", 2},
                                             {Datatype::int32, "INT32", 4},
                                             {Datatype::int64, "INT64", 8},
                                             {Datatype::fp16, "FP16", 2},
                                             {Datatype::bf16, "BF16", 2},
                                             {Datatype::fp32, "FP32", 4},
                                             {Datatype::fp64, "FP64", 8},
                                             {Datatype::bytes, "BYTES", 0}}};

constexpr std::size_t kMostElements = std::size_t{1} << 31;

const TypeRow& row_of(Datatype type) { return kTypes[static_cast<std::size_t>(type)]; }

}  // namespace

const char* name_of(Datatype type) { return row_of(type).name; }
std::size_t size_of(Datatype type) { return row_of(type).size; }

Datatype parse_datatype(std::string_view name) {
  for (const TypeRow& row : kTypes) {
    if (name == row.name) return row.type;
  }
  refuse(
      fmt::format("datatype '{}' is not known: expected BOOL, UINT8 to UINT64, INT8 to INT64, "
                  "FP16, BF16, FP32, FP64 or BYTES",
                  name));
}

std::size_t element_count(const std::vector<std::int64_t>& shape, std::string_view name) {
  std::size_t count = 1;
  for (const std::int64_t size : shape) {
    if (size < 0)
      refuse(
          fmt::format("tensor '{}': shape [{}] has a negative size", name, fmt::join(shape, ", ")));
    if (size > 0 && count > kMostElements / static_cast<std::size_t>(size))
      refuse(fmt::format("tensor '{}': shape [{}] has more than {} elements", name,
                         fmt::join(shape, ", "), kMostElements));
    count *= static_cast<std::size_t>(size);
  }
  return count;
}

void check_element_count(const InferTensor& tensor) {
  const std::size_t expected = element_count(tensor.shape, tensor.name);
  const std::size_t found = tensor.datatype == Datatype::bytes
                                ? tensor.strings.size()
                                : tensor.data.size() / size_of(tensor.datatype);
  const bool whole =
      tensor.datatype == Datatype::bytes || tensor.data.size() % size_of(tensor.datatype) == 0;
  if (expected == found && whole) return;
  refuse(fmt::format("tensor '{}': shape [{}] has {} elements, but the data has {}{}", tensor.name,
                     fmt::join(tensor.shape, ", "), expected, found,
                     whole ? "" : " and a part of one"));
}

void check_parameter(std::string_view name, std::string_view tensor) {
  if (name.starts_with("shared_memory_"))
    refuse(fmt::format("{}: there is no shared memory here: expected its data in the message",
                       tensor));
  if (name == "classification")
    refuse(fmt::format(
        "{}: there is no \"classification\" (class_count) of tensors here: a model that has "
        "classes gives them itself",
        tensor));
}

void check_request_parameter(std::string_view name) {
  if (name == "timeout" || name == "priority" || name.starts_with("sequence_"))
    refuse(
        fmt::format("parameter \"{}\": there is no such thing here{}", name,
                    name == "timeout" ? ": timeout_milliseconds in config.toml is for all" : ""));
}

}  // namespace sullae::serve
