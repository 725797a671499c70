// Every setting that comes from the environment, read in one place, once per world.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace sullae {

/// Looks a variable up; empty when it is not set. Tests pass their own.
using Environment = std::function<std::optional<std::string>(std::string_view)>;

/// The environment of this process. A variable that is set to the empty string counts as not set.
Environment process_environment();

struct Config {
  /// SULLAE_TIMEOUT (seconds): the longest that a collective waits for another rank.
  std::chrono::milliseconds timeout = std::chrono::minutes{10};
  /// SULLAE_RENDEZVOUS_TIMEOUT (seconds): the longest that init() waits for the other ranks to
  /// appear.
  std::chrono::milliseconds rendezvous_timeout = std::chrono::minutes{2};
  /// SULLAE_TRANSPORT: "auto" (shared memory within a host, UCX between hosts), "shm" or "ucx".
  std::string transport = "auto";
  /// SULLAE_HOST_ID: replaces the detected identity of this host; ranks that share it share memory.
  std::string host_id;

  /// Throws InputError that names the variable, its value and what was expected.
  static Config from(const Environment& environment);
};

/// Parses a whole decimal number within [least, most]. Throws InputError naming `what`.
long long parse_integer(std::string_view text, std::string_view what, long long least,
                        long long most);

}  // namespace sullae
