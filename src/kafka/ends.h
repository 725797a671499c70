// What ends a wait for brokers.
#pragma once

#include <functional>

namespace sullae::kafka {

/// Whether the program is to end: asked while brokers are waited for. Empty: it ends without being
/// asked.
using IsToEnd = std::function<bool()>;

}  // namespace sullae::kafka
