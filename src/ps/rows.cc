#include "ps/rows.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "sullae/error.h"

namespace sullae::ps {

nlohmann::json to_json(const TableShape& shape) {
  return {{"dimension", shape.dimension},
          {"deviation", shape.deviation},
          {"seed", shape.seed},
          {"rows", shape.rows},
          {"servers", shape.servers}};
}

TableShape table_shape_of(const nlohmann::json& json) {
  constexpr std::int64_t kMostDimension = 1 << 20;
  const TableShape shape{.dimension = json.at("dimension").get<std::int64_t>(),
                         .deviation = json.at("deviation").get<double>(),
                         .seed = json.at("seed").get<std::uint64_t>(),
                         .rows = json.at("rows").get<std::int64_t>(),
                         .servers = json.at("servers").get<std::uint64_t>()};
  if (shape.dimension < 1 || shape.dimension > kMostDimension)
    throw InputError(
        fmt::format("rows of {} elements: expected 1 to {}", shape.dimension, kMostDimension));
  return shape;
}

}  // namespace sullae::ps
