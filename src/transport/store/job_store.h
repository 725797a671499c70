// The store of the job that this process is in.
#pragma once

#include "base/deadline.h"
#include "base/environment.h"
#include "transport/store/store.h"

namespace sullae {

/// Connects to what SULLAE_STORE names, with the job's secret. Throws what Store does.
Store job_store(const Environment& environment, const Deadline& deadline);

}  // namespace sullae
