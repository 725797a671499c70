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
  /// SULLAE_TRANSPORT: "auto" (shared memory within a host, UCX between hosts), "shm", or the name of
  /// a transport for messages everywhere: "ucx" or "mpi".
  std::string transport = "auto";
  /// SULLAE_ALLREDUCE_ALGORITHM: of allreduce through messages: "auto" (by size and ranks),
  /// "recursive_doubling", "halving_doubling" or "ring".
  std::string allreduce_algorithm = "auto";
  /// SULLAE_HIERARCHICAL_ADASUM (0 or 1): adasum averages the ranks of a host and combines hosts,
  /// instead of combining all ranks.
  bool hierarchical_adasum = false;
  /// SULLAE_DEVICE_TRANSPORT: how CUDA tensors travel: "auto" (NCCL where it is built and every rank
  /// has a GPU of its own, else through host memory), "nccl" or "host".
  std::string device_transport = "auto";
  /// SULLAE_HIERARCHICAL_NCCL (0 or 1): NCCL within a host, and messages through SULLAE_TRANSPORT
  /// between hosts.
  bool hierarchical_nccl = false;
  /// SULLAE_HOST_ID: replaces the detected identity of this host; ranks that share it share memory.
  std::string host_id;
  /// SULLAE_JOB_SECRET: what the job's processes greet each other with at the rendezvous; `sullae run` draws one.
  std::string job_secret;

  /// SULLAE_FUSION_THRESHOLD (bytes): small tensors are reduced together up to this size.
  std::size_t fusion_threshold = std::size_t{64} << 20;
  /// SULLAE_CYCLE_TIME (milliseconds): the longest that a rank which has operations under way, but nothing
  /// to submit, keeps the others waiting. One that waits for nothing looks up every 10 ms.
  std::chrono::microseconds cycle_time{1000};
  /// SULLAE_CACHE_CAPACITY: the number of operations whose negotiation is remembered.
  std::size_t cache_capacity = 1024;
  /// SULLAE_STALL_WARNING (seconds, 0 for never): after this time a wait for another rank, or an
  /// operation that some ranks have submitted and others have not, is reported.
  std::chrono::milliseconds stall_warning = std::chrono::seconds{10};
  /// SULLAE_STALL_TIMEOUT (seconds, 0 for never): after this time it fails on every rank. Empty
  /// takes `timeout`.
  std::optional<std::chrono::milliseconds> stall_timeout;

  /// SULLAE_AUTOTUNE (0 or 1): the engine tries settings while the job runs, and keeps the best.
  bool autotune = false;
  /// SULLAE_AUTOTUNE_LOG: the file that rank 0 writes what it tried to; empty for none.
  std::string autotune_log;
  /// SULLAE_AUTOTUNE_WARMUP_SAMPLES, SULLAE_AUTOTUNE_STEPS_PER_SAMPLE: samples to throw away at the
  /// start, and the length of each.
  std::size_t autotune_warmup_samples = 3;
  std::size_t autotune_steps_per_sample = 10;

  /// SULLAE_TIMELINE: the file that the timeline of the whole run goes to; empty for none.
  std::string timeline;

  /// Throws InputError that names the variable, its value and what was expected.
  static Config from(const Environment& environment);
};

/// Parses a whole decimal number within [least, most]. Throws InputError naming `what`.
long long parse_integer(std::string_view text, std::string_view what, long long least,
                        long long most);

}  // namespace sullae
