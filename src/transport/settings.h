// What the environment says about finding the other ranks and about waiting for them.
#pragma once

#include <chrono>
#include <string>

#include "base/deadline.h"
#include "base/environment.h"

namespace sullae {

/// Of every wait for another rank.
struct WaitSettings {
  /// SULLAE_TIMEOUT (seconds): the longest that a collective waits.
  WaitLimit timeout{std::chrono::minutes{10}, "SULLAE_TIMEOUT"};
  /// SULLAE_STALL_WARNING (seconds, 0 for never): after this time a wait, or an operation that some
  /// ranks have submitted and others have not, is reported.
  std::chrono::milliseconds stall_warning = std::chrono::seconds{10};

  /// Throws InputError that names the variable, its value and what was expected; as all such
  /// functions.
  static WaitSettings from(const Environment& environment);
};

struct RendezvousSettings {
  /// SULLAE_RENDEZVOUS_TIMEOUT (seconds): the longest that init() waits for the other ranks to
  /// appear.
  WaitLimit timeout{std::chrono::minutes{2}, "SULLAE_RENDEZVOUS_TIMEOUT"};
  /// SULLAE_HOST_ID: replaces the detected identity of this host; ranks that share it share memory.
  std::string host_id;
  /// SULLAE_JOB_SECRET: what the job's processes greet each other with; `sullae run` draws one.
  std::string job_secret;

  static RendezvousSettings from(const Environment& environment);
};

}  // namespace sullae
