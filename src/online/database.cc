#include "online/database.h"

#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <cstdint>

#include "base/file_system.h"
#include "base/log.h"
#include "base/request_error.h"

namespace sullae::online {
namespace {

constexpr int kBusyMilliseconds = 10000;

// Zeros for a file that is not there.
std::pair<dev_t, ino_t> place_of(const std::string& file) {
  struct stat now {};
  if (::stat(file.c_str(), &now) != 0) return {};
  return {now.st_dev, now.st_ino};
}

// Whether hosts may have the file open with which a log's index, in memory, cannot be shared
// (https://www.sqlite.org/wal.html).
bool is_on_network(const std::string& file) {
  struct statfs system {};
  return ::statfs(file.c_str(), &system) == 0 &&
         is_of_several_hosts(static_cast<std::uint32_t>(system.f_type));
}

}  // namespace

Database::Database(const std::filesystem::path& file) : name_(file.string()) {
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
  if (::sqlite3_open_v2(name_.c_str(), &connection_, flags, nullptr) != SQLITE_OK) {
    const std::string message =
        connection_ == nullptr ? "no memory" : ::sqlite3_errmsg(connection_);
    ::sqlite3_close(connection_);
    throw RequestError(Refusal::unavailable,
                       fmt::format("{}: cannot be opened: {}", name_, message));
  }
  ::sqlite3_busy_timeout(connection_, kBusyMilliseconds);
  place_ = place_of(name_);
  // SQLite's log is beside what a link stands for.
  std::error_code error;
  const auto real = std::filesystem::canonical(file, error);
  log_ = (error ? name_ : real.string()) + "-wal";
  try {
    execute(fmt::format(
        "PRAGMA journal_mode = {}; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON;",
        is_on_network(name_) ? "DELETE" : "WAL"));
  } catch (const Error&) {
    ::sqlite3_close(connection_);
    throw;
  }
}

Database::~Database() { ::sqlite3_close(connection_); }

bool Database::is_in_place() const { return place_of(name_) == place_; }

void Database::expect_no_old_log() const {
  constexpr std::pair<dev_t, ino_t> kNone{};
  const auto now = place_of(name_);
  if (now == place_ || now == kNone || log_place_ == kNone || place_of(log_) != log_place_) return;
  throw RequestError(
      Refusal::unavailable,
      fmt::format("{0}: another file was put there, beside {1}, which belongs to the one before: "
                  "end all that use it, remove {1} and the -shm beside it, and begin again (what "
                  "is in use is put back with: sqlite3 {0} '.restore BACKUP')",
                  name_, log_));
}

void Database::note_log() { log_place_ = place_of(log_); }

void Database::expect_log() const {
  if (place_of(log_) == log_place_) return;
  throw Error(
      fmt::format("{}: was removed or replaced while it was in use: stop the processes that use "
                  "it, which saves what they hold, and start them again",
                  log_));
}

void Database::fail(const char* what) const {
  const std::string message = fmt::format("{}: {}: {}", name_, what, ::sqlite3_errmsg(connection_));
  switch (::sqlite3_errcode(connection_)) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      throw RequestError(Refusal::unavailable,
                         message + " (by another process, for more than 10 s): try again later");
    case SQLITE_FULL:
    case SQLITE_READONLY:
      throw RequestError(Refusal::unavailable, message);
    default:
      throw Error(message);
  }
}

void Database::execute(const std::string& sql) {
  if (::sqlite3_exec(connection_, sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK)
    fail("cannot be changed");
}

bool Database::in_transaction() const { return ::sqlite3_get_autocommit(connection_) == 0; }

std::int64_t Database::last_insert_id() const { return ::sqlite3_last_insert_rowid(connection_); }

std::int64_t Database::number(const std::string& sql) {
  Statement statement(*this, sql);
  return statement.step() ? statement.integer(0) : 0;
}

Statement::Statement(Database& database, const std::string& sql) : database_(database) {
  if (::sqlite3_prepare_v2(database.connection_, sql.c_str(), static_cast<int>(sql.size()),
                           &statement_, nullptr) != SQLITE_OK)
    database.fail("cannot be asked");
}

Statement::~Statement() { ::sqlite3_finalize(statement_); }

Statement& Statement::bind(std::string_view text) {
  if (::sqlite3_bind_text64(statement_, ++bound_, text.data(), text.size(), SQLITE_TRANSIENT,
                            SQLITE_UTF8) != SQLITE_OK)
    database_.fail("a value cannot be taken");
  return *this;
}

Statement& Statement::bind_bytes(std::string_view bytes) {
  if (::sqlite3_bind_blob64(statement_, ++bound_, bytes.data(), bytes.size(), SQLITE_TRANSIENT) !=
      SQLITE_OK)
    database_.fail("a value cannot be taken");
  return *this;
}

Statement& Statement::bind(std::int64_t number) {
  if (::sqlite3_bind_int64(statement_, ++bound_, number) != SQLITE_OK)
    database_.fail("a value cannot be taken");
  return *this;
}

bool Statement::step() {
  const int result = ::sqlite3_step(statement_);
  if (result == SQLITE_ROW) return true;
  if (result != SQLITE_DONE) database_.fail("a statement failed");
  return false;
}

void Statement::reset() {
  ::sqlite3_reset(statement_);
  bound_ = 0;
}

std::string Statement::text(int column) const {
  const auto* bytes = static_cast<const char*>(::sqlite3_column_blob(statement_, column));
  const auto size = static_cast<std::size_t>(::sqlite3_column_bytes(statement_, column));
  return bytes == nullptr ? std::string() : std::string(bytes, size);
}

std::int64_t Statement::integer(int column) const {
  return ::sqlite3_column_int64(statement_, column);
}

Transaction::Transaction(Database& database) : database_(database) {
  database_.execute("BEGIN IMMEDIATE");
}

Transaction::~Transaction() {
  // SQLite has rolled back already where the disk is full.
  if (!open_ || !database_.in_transaction()) return;
  try {
    database_.execute("ROLLBACK");
  } catch (const Error& error) {
    log::warning("{}", error.what());
  }
}

void Transaction::commit() {
  database_.execute("COMMIT");
  open_ = false;
}

}  // namespace sullae::online
