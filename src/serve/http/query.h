// The part of an address behind the question mark.
#pragma once

#include <cstdint>
#include <string>

namespace sullae::serve {

/// The number called `name` in "name=3&other=4", or `otherwise`. Throws RequestError (invalid) for what is no
/// number of at least 0.
std::int64_t number_of(const std::string& query, const std::string& name, std::int64_t otherwise);

}  // namespace sullae::serve
