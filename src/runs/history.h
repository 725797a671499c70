// What metrics.jsonl says, in columns, and more as it grows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace sullae::runs {

struct Line;

struct Column {
  std::string tag;
  std::vector<std::uint32_t> rows;  ///< that have a value, ascending
  std::vector<double> values;       ///< as many
};

struct Note {
  double time = 0;
  std::int64_t step = 0;
  std::string text;
};

/// Used by one thread at a time.
class History {
 public:
  explicit History(std::filesystem::path file) : file_(std::move(file)) {}
  /// The whole lines within the last `bytes` of `file`, not to be updated.
  static History end_of(std::filesystem::path file, std::int64_t bytes);

  /// Reads what has come since, of whole lines, at most a gigabyte at a time; all of it where the
  /// file is another one than before. Where a run went on after a step, what was there of later
  /// ones is forgotten. Lines that are none of ours, steps that go back by themselves, and what is
  /// longer than 4 MB are counted. Throws Error where the file cannot be read; one that is not
  /// there is empty.
  void update();

  /// Of each row; times in seconds since 1970.
  const std::vector<std::int64_t>& steps() const { return steps_; }
  const std::vector<double>& times() const { return times_; }
  /// Some may be empty.
  const std::vector<Column>& columns() const { return columns_; }
  /// The first row since the run began, or last went on.
  std::size_t begun() const { return begun_; }
  /// Null where there is none, or none any more.
  const Column* find(const std::string& tag) const;
  const std::vector<Note>& notes() const { return notes_; }
  std::size_t damaged() const { return damaged_; }
  /// Of memory.
  std::size_t bytes() const;

 private:
  bool is_another(int fd, std::uint64_t size) const;
  void take(const char* begin, const char* end);
  bool take(const Line& line);
  void forget_after(std::int64_t step);
  Column* column(const std::string& tag, std::size_t guess);

  std::filesystem::path file_;
  std::uint64_t read_ = 0;  // bytes, to the end of a line
  std::string last_;        // of them, to know the file again
  bool is_skipping_ = false;
  std::unordered_map<std::string, std::size_t> places_;  // of columns
  std::vector<std::int64_t> steps_;
  std::vector<double> times_;
  std::vector<Column> columns_;
  std::vector<Note> notes_;
  std::size_t begun_ = 0;
  std::size_t damaged_ = 0;
};

}  // namespace sullae::runs
