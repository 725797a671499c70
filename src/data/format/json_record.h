// A line of JSON lines.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace sullae::data {

/// An object, its members in their order. A whole number that 64 bits do not hold is binary, its
/// digits, and no other number. Throws DamagedRecord, which says why and not where.
nlohmann::ordered_json parse_json_record(const std::string& record);

}  // namespace sullae::data
