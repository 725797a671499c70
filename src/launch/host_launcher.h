// How an agent is started on a host, and how the launcher talks to it: the seam behind which a host
// is this one, one that a remote shell reaches, or one that somebody else's batch system gives.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/fd.h"
#include "launch/launcher.h"

namespace sullae {

/// Both ways to an agent; see frames.h.
struct AgentChannel {
  UniqueFd input;  ///< what the agent reads: once it is closed, the agent ends its ranks and itself
  UniqueFd output;  ///< what it writes
  pid_t pid =
      0;  ///< of the child process that holds the channel's other end; 0 where there is none
};

class HostLauncher {
 public:
  virtual ~HostLauncher() = default;
  /// Starts `agent`, words with a path that is right on this host, there. What becomes of it shows
  /// in the channel. Throws Error where nothing could be started.
  virtual AgentChannel start(const std::vector<std::string>& agent) = 0;
  /// The host has this process's environment and names.
  virtual bool is_here() const { return false; }
};

/// Makes what starts agents on `host`, or null for a host that it does not know.
using HostLauncherMaker =
    std::function<std::unique_ptr<HostLauncher>(const std::string& host, const JobOptions& job)>;

/// The first that knows the host: of those that were registered, then this host and the remote
/// shell, which knows every name.
std::unique_ptr<HostLauncher> make_host_launcher(const std::string& host, const JobOptions& job);

/// Adds one, before the first job. Any thread.
void register_host_launcher(HostLauncherMaker maker);

// Sullae's own.
std::unique_ptr<HostLauncher> make_local_launcher(const std::string& host, const JobOptions& job);
std::unique_ptr<HostLauncher> make_remote_shell_launcher(const std::string& host,
                                                         const JobOptions& job);

/// A child process that runs `words` and talks through its standard input and output, in a process
/// group of its own. Throws Error where it cannot be run.
AgentChannel open_channel(const std::vector<std::string>& words);

}  // namespace sullae
