// How the launcher of an elastic job and its workers talk, through the rendezvous store: each
// worker has a row of keys that it sets and one that it waits for.
#pragma once

#include <string>

namespace sullae::elastic {

/// What a worker says under worker_message_key(worker, n), n = 0, 1, 2, ….
struct WorkerMessage {
  enum class Kind {
    ready,  ///< it waits for the next world; `reason` says what ended the last one, empty where it
            ///< was asked to come out
    leaving,  ///< it wants to go after the step
    left,     ///< it has come out and ends
    exiting,  ///< its process ends by itself, and its agent will say how
  };
  Kind kind = Kind::ready;
  std::string reason;

  std::string to_json() const;
  static WorkerMessage from_json(const std::string& text);
};

/// What it is told under launcher_message_key(worker, n).
struct LauncherMessage {
  enum class Kind {
    interrupt,  ///< come out of the world of this generation after the step
    abandon,    ///< that world has failed
    form,       ///< join it, as `rank` of `size`
    release,    ///< it is in no other world, and needed for nothing
  };
  Kind kind = Kind::form;
  int generation = 0;
  int rank = 0;
  int size = 1;
  bool goes = false;  ///< `interrupt`: will be in no other world; `form`: it is the last one
  std::string reason;

  std::string to_json() const;
  static LauncherMessage from_json(const std::string& text);
};

std::string worker_message_key(int worker, int number);
std::string launcher_message_key(int worker, int number);
/// The worker whose worker_message_key() `key` is; -1 for other keys.
int worker_of(const std::string& key);
/// What the keys of a generation's world start with.
std::string generation_prefix(int generation);

/// Where a worker finds its number.
inline constexpr const char* kWorkerVariable = "SULLAE_ELASTIC_WORKER";
/// The fewest ranks of the job; SULLAE_SIZE are the most.
inline constexpr const char* kLeastVariable = "SULLAE_ELASTIC_MIN_SIZE";
/// How long it waits for a world, in seconds.
inline constexpr const char* kTimeoutVariable = "SULLAE_ELASTIC_TIMEOUT";

}  // namespace sullae::elastic
