#include "online/round_store.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/dump_json.h"
#include "online/clock.h"

namespace sullae::online {
namespace {

// What is asked for in columns, all else as JSON.
constexpr const char* kRoundSchema = R"(
CREATE TABLE IF NOT EXISTS rounds (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  state TEXT NOT NULL,
  revision INTEGER NOT NULL,
  call INTEGER NOT NULL,
  details TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS calls (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  author TEXT NOT NULL,
  time INTEGER NOT NULL
);
)";

}  // namespace

RoundStore::RoundStore(const std::filesystem::path& file) : database_(file), reader_(file) {
  database_.execute(kRoundSchema);
}

void RoundStore::begin(Round& round) {
  const std::lock_guard lock(mutex_);
  // The details hold the id, which is known once there is a row.
  Transaction transaction(database_);
  database_.execute("INSERT INTO rounds (state, revision, call, details) VALUES ('', 0, 0, '')");
  round.id = database_.last_insert_id();
  write(round);
  transaction.commit();
}

void RoundStore::update(const Round& round) {
  const std::lock_guard lock(mutex_);
  write(round);
}

void RoundStore::write(const Round& round) {
  Statement statement(
      database_, "UPDATE rounds SET state = ?, revision = ?, call = ?, details = ? WHERE id = ?");
  statement.bind(name_of(round.state))
      .bind(round.revision)
      .bind(round.call)
      .bind(dump_json(json_of(round)))
      .bind(round.id)
      .step();
}

std::vector<Round> RoundStore::select(const std::string& condition) const {
  const std::lock_guard lock(reading_mutex_);
  Statement statement(reader_, "SELECT details FROM rounds " + condition);
  std::vector<Round> rounds;
  while (statement.step()) rounds.push_back(round_from(nlohmann::json::parse(statement.text(0))));
  return rounds;
}

std::vector<Round> RoundStore::newest(std::int64_t limit) const {
  return select(fmt::format("ORDER BY id DESC LIMIT {}", limit));
}

std::vector<Round> RoundStore::unfinished() const {
  return select("WHERE state IN ('training', 'publishing') ORDER BY id");
}

std::int64_t RoundStore::number(const std::string& sql) const {
  const std::lock_guard lock(reading_mutex_);
  return reader_.number(sql);
}

std::int64_t RoundStore::attempted_revision() const {
  return number("SELECT max(revision) FROM rounds WHERE state NOT IN ('interrupted', 'failed')");
}

std::map<std::string, std::int64_t> RoundStore::counts() const {
  const std::lock_guard lock(reading_mutex_);
  Statement statement(reader_, "SELECT state, count(*) FROM rounds GROUP BY state");
  std::map<std::string, std::int64_t> counts;
  while (statement.step()) counts[statement.text(0)] = statement.integer(1);
  return counts;
}

std::int64_t RoundStore::call(const std::string& author) {
  const std::lock_guard lock(mutex_);
  Statement insert(database_, "INSERT INTO calls (author, time) VALUES (?, ?)");
  insert.bind(author).bind(milliseconds_now()).step();
  return database_.last_insert_id();
}

std::int64_t RoundStore::last_call() const { return number("SELECT max(id) FROM calls"); }
std::int64_t RoundStore::answered_call() const {
  return number("SELECT max(call) FROM rounds WHERE state <> 'interrupted'");
}

}  // namespace sullae::online
