// The world of init(), for what gives this process another one.
#pragma once

#include "sullae/sullae.h"

namespace sullae {

/// The world of init() ends here, and becomes the one that `options` says. Collective among that
/// one's ranks.
World join_anew(const WorldOptions& options);

}  // namespace sullae
