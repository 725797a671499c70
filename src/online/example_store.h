// The samples that operators correct and add, durably, with who changed what and when.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "online/database.h"

namespace sullae::online {

/// Of samples of a model that has no classes.
inline constexpr const char* kNoLabel = "-";

/// A sample as an operator gives it.
struct Example {
  /// What it is known by: another one of this key takes its place. Empty takes what the input alone
  /// makes, a hash of it.
  std::string key;
  /// A text, or a JPEG file.
  std::string input;
  /// Empty takes the sample of this key back.
  std::string label;
};

/// What one operator gives at once.
struct ExampleChange {
  std::vector<Example> examples;
  std::string author;
};

/// A sample with its last change.
struct StoredExample {
  Example example;
  std::string author;
  /// Milliseconds since 1970, UTC.
  std::int64_t time = 0;
  /// Rises with every change of the store.
  std::int64_t revision = 0;
};

struct StoreResult {
  std::int64_t added = 0;
  std::int64_t replaced = 0;
  std::int64_t removed = 0;
  /// Those that were there already, just so.
  std::int64_t unchanged = 0;
  /// Of the store, after it.
  std::int64_t revision = 0;
};

/// A file of SQLite. Any thread may call it, and several processes may have it open.
class ExampleStore {
 public:
  /// Throws Error.
  explicit ExampleStore(const std::filesystem::path& file);

  /// All of `changes`, one after the other, or none; a result each. When it returns they are on the
  /// disk. Throws Error.
  std::vector<StoreResult> put(const std::vector<ExampleChange>& changes);
  /// Samples that have changed after revision `since`, in the order of their changes, at most
  /// `limit`. Those that were taken back have no label. It ends with the first sample by which the
  /// inputs are more than `most_bytes`.
  std::vector<StoredExample> changed_since(
      std::int64_t since, std::int64_t limit,
      std::size_t most_bytes = std::numeric_limits<std::size_t>::max()) const;
  /// In the order of their changes, without those that were taken back; as for all below.
  std::vector<StoredExample> all() const;
  /// How many samples have changed after revision `since`, and the time of the first of these
  /// changes.
  std::pair<std::int64_t, std::int64_t> count_since(std::int64_t since) const;
  std::int64_t size() const;
  std::int64_t revision() const;
  /// Whether the file is still there under its name: what is put into one that was removed is lost
  /// with it.
  bool is_in_place() const { return database_.is_in_place(); }
  /// Before the one that took its place is opened. Throws RequestError (unavailable).
  void expect_no_old_log() const { database_.expect_no_old_log(); }
  /// Of this file and no other: revisions of different files have nothing to do with each other.
  std::string identity() const;

 private:
  StoreResult put(const ExampleChange& change);
  std::vector<StoredExample> select(const char* condition, std::int64_t since, std::int64_t limit,
                                    std::size_t most_bytes) const;

  std::mutex mutex_;
  Database database_;  // guarded by mutex_
  // Who writes may wait for another process; who reads need not.
  mutable std::mutex reading_mutex_;
  mutable Database reader_;  // guarded by reading_mutex_
};

}  // namespace sullae::online
