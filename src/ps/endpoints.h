// How workers find the servers of a job.
#pragma once

#include <string>
#include <vector>

#include "base/environment.h"

namespace sullae::ps {

/// Whether the environment says that there are servers.
bool has_servers(const Environment& environment);

/// Of a job's servers: the addresses in SULLAE_PS_SERVERS, or those that SULLAE_PS servers have
/// published in the job's store, for which it waits up to SULLAE_RENDEZVOUS_TIMEOUT, or those of
/// "ps" in TF_CONFIG; none where there is none of these.
std::vector<std::string> find_endpoints(const Environment& environment);

/// For one of the job's servers: its place in the job's store.
class Registration {
 public:
  /// Without SULLAE_STORE there is none.
  Registration(const Environment& environment, int server);

  bool is_in_a_job() const { return !store_.empty(); }
  /// Where it is to listen: at a port of its own, or where it did before it died.
  std::string where() const;
  /// Where workers reach what listens at `bound`. Other hosts reach this one as `host` says, or
  /// from where it reaches the store.
  void publish(const std::string& bound, const std::string& host) const;

 private:
  std::string key() const;

  std::string store_;
  std::string secret_;
  int server_;
};

}  // namespace sullae::ps
