// Finds operations that ranks have submitted under one name in different process sets. Each set
// negotiates by itself and would only see that somebody is missing.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace sullae::engine {

/// A rank has waited long for others in a process set, or does so no more.
struct Waiting {
  std::string set;
  std::vector<int> members;  ///< world ranks
  std::string name;          ///< of the operation
  bool ended = false;

  bool operator==(const Waiting&) const = default;
};

/// What the sets of one process know, the world itself among them: each set's engine reports here,
/// and the world's engine tells the other ranks. Any thread may call.
class SetWatch {
 public:
  using GiveUp = std::function<void(const std::string& name, const std::string& reason)>;

  /// `give_up` fails an operation of the set on all its ranks; null where another rank does that.
  void add(const std::string& set, std::vector<int> members, GiveUp give_up);
  void remove(const std::string& set);
  /// Without process sets there is nothing to compare.
  bool active() const;

  /// All that this rank waits for in a set now.
  void report(const std::string& set, const std::vector<std::string>& names);
  /// What has changed since the last call.
  std::vector<Waiting> take_changes();
  void give_up(const std::string& set, const std::string& name, const std::string& reason);

 private:
  struct Set {
    std::vector<int> members;
    GiveUp give_up;
    std::vector<std::string> waiting;
  };

  mutable std::mutex mutex_;  // guards all below
  std::map<std::string, Set> sets_;
  std::vector<Waiting> changes_;
};

/// Two ranks that wait for each other in different sets.
struct SetConflict {
  Waiting one;
  Waiting other;
  std::string reason;  ///< for the MismatchError
};

/// Compares what the ranks wait for. Used by one thread at a time, with the same calls on every
/// rank.
class SetComparison {
 public:
  /// `rank` is a world rank. A conflict is found once.
  std::optional<SetConflict> hear(int rank, const Waiting& waiting);

 private:
  std::map<std::string, std::map<int, std::vector<Waiting>>> waiting_;  // by name and rank
};

}  // namespace sullae::engine
