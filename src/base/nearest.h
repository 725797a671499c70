// Which word was meant by one that is none.
#pragma once

#include <string>
#include <vector>

namespace sullae {

/// The one of `all` that was probably meant by `name`: what begins so, what ends with the same
/// words, as --http-port for --port, or what differs by little. Empty for none.
std::string nearest(const std::vector<std::string>& all, const std::string& name);

}  // namespace sullae
