// The part of an address behind the question mark.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sullae::http {

/// The number called `name` in "name=3&other=4", or `otherwise`. Throws RequestError (invalid) for
/// what is no number of at least 0.
std::int64_t number_of(const std::string& query, const std::string& name, std::int64_t otherwise);

/// The texts called `name`, decoded, in their order; the first of them, or nothing.
std::vector<std::string> texts_of(const std::string& query, const std::string& name);
std::optional<std::string> text_of(const std::string& query, const std::string& name);

}  // namespace sullae::http
