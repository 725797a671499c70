// How the launcher of an elastic job and its workers talk, through the rendezvous store: each worker has a row of keys
// that it sets and one that it waits for.
#pragma once

#include <string>

namespace sullae::elastic {

/// What a worker says under said_key(worker, n), n = 0, 1, 2, ….
struct Said {
  enum class Kind {
    ready,  ///< it waits for the next world; `reason` says what ended the last one, empty where it was asked to come out
    leaves,  ///< it wants to go after the step
    left,    ///< it has come out and ends
    exits,   ///< its process ends by itself, and its agent will say how
  };
  Kind kind = Kind::ready;
  std::string reason;

  std::string to_json() const;
  static Said from_json(const std::string& text);
};

/// What it is told under told_key(worker, n).
struct Told {
  enum class Kind {
    interrupt,  ///< come out of the world of this generation after the step
    abandon,    ///< that world has failed
    form,       ///< join it, as `rank` of `size`
  };
  Kind kind = Kind::form;
  int generation = 0;
  int rank = 0;
  int size = 1;
  std::string reason;

  std::string to_json() const;
  static Told from_json(const std::string& text);
};

std::string said_key(int worker, int number);
std::string told_key(int worker, int number);
/// The worker whose said_key() `key` is; -1 for other keys.
int worker_of(const std::string& key);
/// What the keys of a generation's world start with.
std::string generation_prefix(int generation);

/// Where a worker finds its number.
inline constexpr const char* kWorkerVariable = "SULLAE_ELASTIC_WORKER";
/// How long it waits for a world, in seconds.
inline constexpr const char* kTimeoutVariable = "SULLAE_ELASTIC_TIMEOUT";

}  // namespace sullae::elastic
