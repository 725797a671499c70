#include "transport/settings.h"

#include <fmt/format.h>

#include "sullae/error.h"

namespace sullae {

WaitSettings WaitSettings::from(const Environment& environment) {
  WaitSettings settings;
  read_seconds(environment, "SULLAE_TIMEOUT", ZeroMeans::error, settings.timeout.time);
  read_seconds(environment, "SULLAE_STALL_WARNING", ZeroMeans::no_limit, settings.stall_warning);
  return settings;
}

RendezvousSettings RendezvousSettings::from(const Environment& environment) {
  RendezvousSettings settings;
  read_seconds(environment, "SULLAE_RENDEZVOUS_TIMEOUT", ZeroMeans::error, settings.timeout.time);
  read_text(environment, "SULLAE_HOST_ID", settings.host_id);
  read_text(environment, "SULLAE_JOB_SECRET", settings.job_secret);
  constexpr std::size_t kMost = 256;
  if (settings.job_secret.size() > kMost || settings.job_secret.find('\n') != std::string::npos)
    throw InputError(
        fmt::format("SULLAE_JOB_SECRET: expected one line of at most {} bytes", kMost));
  return settings;
}

}  // namespace sullae
