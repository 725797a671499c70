// The server's web page.
#pragma once

#include <string>

namespace sullae::serve {

/// Self-contained: no other file, and nothing of other hosts.
const std::string& page();

}  // namespace sullae::serve
