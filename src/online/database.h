// SQLite, with exceptions and owners.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

struct sqlite3;
struct sqlite3_stmt;

namespace sullae::online {

/// A connection with full synchronisation: what was committed outlives the process and the power.
/// In WAL mode, but where other hosts may have the file open, too. Used by one thread at a time.
class Database {
 public:
  /// Makes the file where there is none. Throws Error that names it.
  explicit Database(const std::filesystem::path& file);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  /// One or more statements without a result. Throws Error.
  void execute(const std::string& sql);
  std::int64_t last_insert_id() const;
  bool in_transaction() const;
  /// Whether the file that was opened is still what its name stands for.
  bool is_in_place() const;
  /// Throws RequestError (unavailable) where another file has this one's name while this one's log
  /// is still beside it: SQLite would take the log for that file's, and bring back what the file
  /// has not, or destroy it.
  void expect_no_old_log() const;
  /// From here on expect_log() knows the log file that commits go to; after the first of them.
  void note_log();
  /// Throws Error where the log was removed or replaced since: commits would be lost with this
  /// process.
  void expect_log() const;
  /// What a query answers with one number; 0 where it answers with none. Throws Error.
  std::int64_t number(const std::string& sql);

 private:
  friend class Statement;
  [[noreturn]] void fail(const char* what) const;

  std::string name_;
  std::string log_;
  sqlite3* connection_ = nullptr;
  std::pair<dev_t, ino_t> place_{};
  std::pair<dev_t, ino_t> log_place_{};
};

/// A statement with values for its question marks. Used as its Database.
class Statement {
 public:
  Statement(Database& database, const std::string& sql);
  ~Statement();
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  /// The next question mark's value.
  Statement& bind(std::string_view text);
  Statement& bind_bytes(std::string_view bytes);
  Statement& bind(std::int64_t number);
  /// Whether there is a row. Throws Error.
  bool step();
  /// Forgets the values, to be run again.
  void reset();
  /// Of the row, columns from 0; bytes are texts too.
  std::string text(int column) const;
  std::int64_t integer(int column) const;

 private:
  Database& database_;
  sqlite3_stmt* statement_ = nullptr;
  int bound_ = 0;
};

/// Undone by its destructor unless it was committed.
class Transaction {
 public:
  /// Waits for other connections' to end; throws Error after a while (Database's busy timeout).
  explicit Transaction(Database& database);
  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  void commit();

 private:
  Database& database_;
  bool open_ = true;
};

}  // namespace sullae::online
