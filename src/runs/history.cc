#include "runs/history.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/fd.h"
#include "base/system_error.h"
#include "runs/line.h"

namespace sullae::runs {

History History::end_of(std::filesystem::path file, std::int64_t bytes) {
  History end(std::move(file));
  const UniqueFd fd(::open(end.file_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status = {};
  if (!fd || ::fstat(fd.get(), &status) != 0) return end;
  const auto begin = std::max<std::int64_t>(0, status.st_size - bytes);
  std::string piece(static_cast<std::size_t>(status.st_size - begin), '\0');
  const auto n = ::pread(fd.get(), piece.data(), piece.size(), begin);
  piece.resize(static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
  const auto first = begin == 0 ? 0 : piece.find('\n') + 1;  // which follows a part of a line
  const auto last = piece.rfind('\n');
  if (last != std::string::npos && first <= last)
    end.take(piece.data() + first, piece.data() + last + 1);
  return end;
}

void History::update() {
  const UniqueFd fd(::open(file_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) {
    if (errno != ENOENT) throw system_error("{}", file_.string());
    *this = History(std::move(file_));
    return;
  }
  struct stat status = {};
  if (::fstat(fd.get(), &status) != 0) throw system_error("{}", file_.string());
  const auto size = static_cast<std::uint64_t>(status.st_size);
  if (inode_ != status.st_ino || size < read_) *this = History(std::move(file_));
  inode_ = status.st_ino;
  std::string piece;
  std::size_t begun = 0;  // of a line whose end was not read yet
  while (read_ + begun < size) {
    constexpr std::uint64_t kPiece = std::uint64_t{1} << 20;
    piece.resize(begun + std::min(kPiece, size - read_ - begun));
    const auto n = ::pread(fd.get(), piece.data() + begun, piece.size() - begun,
                           static_cast<off_t>(read_ + begun));
    if (n < 0) throw system_error("{}", file_.string());
    if (n == 0) break;
    piece.resize(begun + static_cast<std::size_t>(n));
    const auto end = piece.rfind('\n');
    if (end != std::string::npos) {
      take(piece.data(), piece.data() + end + 1);
      read_ += end + 1;
      piece.erase(0, end + 1);
    }
    begun = piece.size();
  }
}

void History::take(const char* begin, const char* end) {
  Line line;
  while (begin < end) {
    const char* const stop =
        static_cast<const char*>(std::memchr(begin, '\n', static_cast<std::size_t>(end - begin)));
    if (line.parse(begin, stop)) {
      take(line);
    } else {
      ++damaged_;
    }
    begin = stop + 1;
  }
}

void History::take(const Line& line) {
  if (!line.note.empty()) notes_.push_back({line.time, line.step, line.note});
  if (line.count == 0) return;
  if (!steps_.empty() && line.step < steps_.back()) forget_from(line.step);
  const auto row = static_cast<std::uint32_t>(steps_.size());
  steps_.push_back(line.step);
  times_.push_back(line.time);
  for (std::size_t i = 0; i < line.count; ++i) {
    Column& found = column(line.values[i].tag, i);
    found.rows.push_back(row);
    found.values.push_back(line.values[i].number);
  }
}

// Steps ascend, so what is forgotten is the end.
void History::forget_from(std::int64_t step) {
  const auto kept =
      static_cast<std::size_t>(std::ranges::lower_bound(steps_, step) - steps_.begin());
  steps_.resize(kept);
  times_.resize(kept);
  for (Column& column : columns_) {
    const auto end = std::ranges::lower_bound(column.rows, kept);
    column.values.resize(static_cast<std::size_t>(end - column.rows.begin()));
    column.rows.resize(column.values.size());
  }
}

// Lines of a kind have their tags in the same order, so the guess is mostly right.
Column& History::column(const std::string& tag, std::size_t guess) {
  if (guess < columns_.size() && columns_[guess].tag == tag) return columns_[guess];
  const auto found = std::ranges::find(columns_, tag, &Column::tag);
  if (found != columns_.end()) return *found;
  return columns_.emplace_back(Column{.tag = tag, .rows = {}, .values = {}});
}

const Column* History::find(const std::string& tag) const {
  const auto found = std::ranges::find(columns_, tag, &Column::tag);
  return found == columns_.end() ? nullptr : &*found;
}

std::size_t History::bytes() const {
  std::size_t bytes = sizeof *this + steps_.capacity() * sizeof(std::int64_t) +
                      times_.capacity() * sizeof(double) + notes_.capacity() * sizeof(Note);
  for (const Column& column : columns_)
    bytes += sizeof column + column.rows.capacity() * sizeof(std::uint32_t) +
             column.values.capacity() * sizeof(double);
  for (const Note& note : notes_) bytes += note.text.capacity();
  return bytes;
}

}  // namespace sullae::runs
