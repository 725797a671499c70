// What a program says of servers, as the room without libtorch takes it.
#pragma once

#include "ps/client/client.h"
#include "ps/rule.h"
#include "sullae/ps/options.h"

namespace sullae::ps {

/// `who` is named in errors. Throws InputError for options that servers do not have.
Rule core_rule(const RuleOptions& options, const char* who);
double rate_of(const RuleOptions& options);
/// With what the environment says where they say nothing. Throws InputError where there are no
/// servers.
ClientOptions client_options(const WorkerOptions& given, const char* name, const char* who);
Staleness staleness_of(const Delays& delays);

}  // namespace sullae::ps
