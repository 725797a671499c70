#include "online/example_store.h"

#include <fmt/format.h>

#include <limits>

#include "base/failpoint.h"
#include "base/hash.h"
#include "base/request_error.h"
#include "online/clock.h"

namespace sullae::online {
namespace {

// `changes` keeps all that was ever said; `examples` is what holds now. A sample without a label
// was taken back.
constexpr const char* kSchema = R"(
CREATE TABLE IF NOT EXISTS changes (
  revision INTEGER PRIMARY KEY AUTOINCREMENT,
  key TEXT NOT NULL,
  input TEXT NOT NULL,
  label TEXT NOT NULL,
  author TEXT NOT NULL,
  time INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS examples (
  key TEXT PRIMARY KEY,
  revision INTEGER NOT NULL UNIQUE REFERENCES changes (revision)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS taken_back ON changes (label) WHERE label = '';
CREATE TABLE IF NOT EXISTS identity (only INTEGER PRIMARY KEY CHECK (only = 1), id TEXT NOT NULL);
INSERT OR IGNORE INTO identity VALUES (1, lower(hex(randomblob(16))));
)";

// By the index: a row's label is behind its input, and to reach that of an image is to read the
// image.
constexpr const char* kHolds = "revision NOT IN (SELECT revision FROM changes WHERE label = '')";

}  // namespace

ExampleStore::ExampleStore(const std::filesystem::path& file) : database_(file), reader_(file) {
  database_.execute(kSchema);
  database_.note_log();
}

std::vector<StoreResult> ExampleStore::put(const std::vector<ExampleChange>& changes) {
  const std::lock_guard lock(mutex_);
  if (is_in_place()) database_.expect_log();
  Transaction transaction(database_);
  std::vector<StoreResult> results;
  for (const ExampleChange& change : changes) results.push_back(put(change));
  failpoint("examples.written");
  transaction.commit();
  failpoint("examples.stored");
  if (!is_in_place())
    throw RequestError(Refusal::unavailable,
                       "the file of the samples was removed or replaced meanwhile: try again");
  database_.expect_log();
  return results;
}

StoreResult ExampleStore::put(const ExampleChange& change) {
  Statement find(database_,
                 "SELECT input, label FROM examples JOIN changes USING (revision) "
                 "WHERE examples.key = ?");
  Statement insert(database_,
                   "INSERT INTO changes (key, input, label, author, time) VALUES (?, ?, ?, ?, ?)");
  Statement replace(database_, "INSERT OR REPLACE INTO examples (key, revision) VALUES (?, ?)");
  StoreResult result;
  for (const Example& example : change.examples) {
    const auto hash = example.key.empty() ? fmt::format("{:016x}", fnv1a(example.input)) : "";
    auto key = example.key.empty() ? hash : example.key;
    find.reset();
    bool found = find.bind(key).step();
    // Two inputs may have one hash, and are two samples. What was taken back by its key has none.
    const auto is_another = [&] {
      return found && !find.text(0).empty() && find.text(0) != example.input;
    };
    for (int others = 1; !hash.empty() && is_another(); ++others) {
      key = fmt::format("{}-{}", hash, others);
      find.reset();
      found = find.bind(key).step();
    }
    const bool known = found && !find.text(1).empty();
    const bool removes = example.label.empty();
    if (known ? find.text(0) == example.input && find.text(1) == example.label : removes) {
      ++result.unchanged;
      continue;
    }
    ++(removes ? result.removed : known ? result.replaced : result.added);
    insert.reset();
    insert.bind(key);
    // SQLite's tools would cut a text off at a zero, which every JPEG file has.
    const bool is_text = example.input.find('\0') == std::string::npos;
    (is_text ? insert.bind(example.input) : insert.bind_bytes(example.input))
        .bind(example.label)
        .bind(change.author)
        .bind(milliseconds_now())
        .step();
    replace.reset();
    replace.bind(key).bind(database_.last_insert_id()).step();
  }
  result.revision = database_.number("SELECT max(revision) FROM changes");
  return result;
}

std::vector<StoredExample> ExampleStore::select(const char* condition, std::int64_t since,
                                                std::int64_t limit, std::size_t most_bytes) const {
  const std::lock_guard lock(reading_mutex_);
  Statement statement(reader_,
                      fmt::format("SELECT changes.key, input, label, author, time, revision "
                                  "FROM examples JOIN changes USING (revision) "
                                  "WHERE {} AND revision > ? ORDER BY revision LIMIT ?",
                                  condition));
  statement.bind(since).bind(limit);
  std::vector<StoredExample> list;
  std::size_t bytes = 0;
  while (bytes <= most_bytes && statement.step()) {
    list.push_back({.example = {.key = statement.text(0),
                                .input = statement.text(1),
                                .label = statement.text(2)},
                    .author = statement.text(3),
                    .time = statement.integer(4),
                    .revision = statement.integer(5)});
    bytes += list.back().example.input.size() + list.back().example.key.size();
  }
  return list;
}

std::vector<StoredExample> ExampleStore::changed_since(std::int64_t since, std::int64_t limit,
                                                       std::size_t most_bytes) const {
  return select("true", since, limit, most_bytes);
}

std::vector<StoredExample> ExampleStore::all() const {
  return select(kHolds, 0, std::numeric_limits<std::int64_t>::max(),
                std::numeric_limits<std::size_t>::max());
}

std::pair<std::int64_t, std::int64_t> ExampleStore::count_since(std::int64_t since) const {
  const std::lock_guard lock(reading_mutex_);
  Statement waiting(reader_,
                    fmt::format("SELECT count(*), min(revision) FROM examples JOIN changes "
                                "USING (revision) WHERE {} AND revision > ?",
                                kHolds));
  if (!waiting.bind(since).step() || waiting.integer(0) == 0) return {0, 0};
  // Of one: the time is stored behind what was sent, so that a look at all would read all images.
  Statement oldest(reader_, "SELECT time FROM changes WHERE revision = ?");
  oldest.bind(waiting.integer(1)).step();
  return {waiting.integer(0), oldest.integer(0)};
}

std::string ExampleStore::identity() const {
  const std::lock_guard lock(reading_mutex_);
  Statement statement(reader_, "SELECT id FROM identity");
  statement.step();
  return statement.text(0);
}

std::int64_t ExampleStore::size() const {
  const std::lock_guard lock(reading_mutex_);
  return reader_.number(fmt::format("SELECT count(*) FROM examples WHERE {}", kHolds));
}

std::int64_t ExampleStore::revision() const {
  const std::lock_guard lock(reading_mutex_);
  return reader_.number("SELECT max(revision) FROM changes");
}

}  // namespace sullae::online
