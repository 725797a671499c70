// Tables of embeddings: rows by number, on the server that a number's hash says.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

namespace sullae::ps {

/// What a table is, the same for all workers.
struct TableShape {
  std::int64_t dimension = 1;  // of a row
  /// Rows begin as draws from N(0, deviation²) that depend on these and on the row's number alone, so that what is trained
  /// does not depend on the number of servers.
  double deviation = 1;
  std::uint64_t seed = 0;
};

/// Rows with their numbers, and with what the rule keeps of each, as they travel and are saved.
struct Rows {
  std::vector<std::uint64_t> ids;
  /// Row after row: values, then the rule's first and second, as far as it has them.
  std::vector<float> data;
};

/// As a greeting has it, and back. Throws nlohmann::json::exception, and InputError for rows that cannot be.
nlohmann::json to_json(const TableShape& shape);
TableShape table_shape_of(const nlohmann::json& json);

/// A finalizer of D. Stafford's ("mix13", as in SplitMix64).
inline std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

/// Among so many, by other bits than those that hash tables take first.
inline std::size_t server_of(std::uint64_t id, std::size_t servers) {
  return static_cast<std::size_t>((mix(id) >> 32) * servers >> 32);
}

}  // namespace sullae::ps
