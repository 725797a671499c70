// Tables of embeddings: rows by number, on the server that a number's hash says.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "base/hash.h"

namespace sullae::ps {

/// What a table is, the same for all workers.
struct TableShape {
  std::int64_t dimension = 1;  // of a row
  /// Rows begin as draws from N(0, deviation²) that depend on these and on the row's number alone,
  /// so that what is trained does not depend on the number of servers.
  double deviation = 1;
  std::uint64_t seed = 0;
  std::int64_t rows = 0;      ///< that there are, where that is known: 0 where it is not
  std::uint64_t servers = 1;  ///< that have it: server_of() says which row is where
};

/// Rows with their numbers, and with what the rule keeps of each, as they travel and are saved.
struct Rows {
  std::vector<std::uint64_t> ids;
  /// Row after row: values, then the rule's first and second, as far as it has them.
  std::vector<float> data;
};

/// As a greeting has it, and back. Throws nlohmann::json::exception, and InputError for rows that
/// cannot be.
nlohmann::json to_json(const TableShape& shape);
TableShape table_shape_of(const nlohmann::json& json);

/// Among so many, by other bits than those that hash tables take first.
inline std::size_t server_of(std::uint64_t id, std::size_t servers) {
  return static_cast<std::size_t>((mix64(id) >> 32) * servers >> 32);
}

}  // namespace sullae::ps
