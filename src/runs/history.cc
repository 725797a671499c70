#include "runs/history.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/fd.h"
#include "base/system_error.h"
#include "runs/line.h"
#include "sullae/error.h"

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
  if (!S_ISREG(status.st_mode)) throw Error(fmt::format("{}: is no file", file_.string()));
  auto size = static_cast<std::uint64_t>(status.st_size);
  if (is_another(fd.get(), size)) *this = History(std::move(file_));
  constexpr std::uint64_t kMost = std::uint64_t{1} << 30;
  constexpr std::uint64_t kPiece = std::uint64_t{1} << 20;
  constexpr std::size_t kLongestLine = std::size_t{4} << 20;
  size = std::min(size, read_ + kMost);
  std::string piece;
  std::size_t begun = 0;  // of a line whose end was not read yet
  while (read_ + begun < size) {
    piece.resize(begun + std::min(kPiece, size - read_ - begun));
    const auto n = ::pread(fd.get(), piece.data() + begun, piece.size() - begun,
                           static_cast<off_t>(read_ + begun));
    if (n < 0) throw system_error("{}", file_.string());
    if (n == 0) break;
    piece.resize(begun + static_cast<std::size_t>(n));
    // Behind what was looked through.
    const auto last = std::string_view(piece).substr(begun).rfind('\n');
    if (last != std::string_view::npos) {
      const std::size_t end = begun + last + 1;
      const std::size_t first = std::exchange(is_skipping_, false) ? piece.find('\n') + 1 : 0;
      take(piece.data() + first, piece.data() + end);
      read_ += end;
      last_ = piece.substr(end - std::min<std::size_t>(end, 64), std::min<std::size_t>(end, 64));
      piece.erase(0, end);
    } else if (is_skipping_ || piece.size() > kLongestLine) {
      if (!std::exchange(is_skipping_, true)) ++damaged_;
      read_ += piece.size();
      last_.clear();
      piece.clear();
    }
    begun = piece.size();
  }
}

// Numbers of files are given again: what was read must still be there.
bool History::is_another(int fd, std::uint64_t size) const {
  if (size < read_) return true;
  std::string now(last_.size(), '\0');
  const auto n = ::pread(fd, now.data(), now.size(), static_cast<off_t>(read_ - last_.size()));
  return n != static_cast<ssize_t>(last_.size()) || now != last_;
}

void History::take(const char* begin, const char* end) {
  Line line;
  while (begin < end) {
    const char* const stop =
        static_cast<const char*>(std::memchr(begin, '\n', static_cast<std::size_t>(end - begin)));
    if (!line.parse(begin, stop) || !take(line)) ++damaged_;
    begin = stop + 1;
  }
}

bool History::take(const Line& line) {
  if (line.goes_on) forget_after(line.step);
  if (!line.note.empty()) notes_.push_back({line.time, line.step, line.note});
  if (line.count == 0) return true;
  if (!steps_.empty() && line.step < steps_.back()) return false;
  const auto row = static_cast<std::uint32_t>(steps_.size());
  steps_.push_back(line.step);
  // Clocks are set back.
  times_.push_back(times_.empty() ? line.time : std::max(line.time, times_.back()));
  bool is_whole = true;
  for (std::size_t i = 0; i < line.count; ++i) {
    Column* const found = column(line.values[i].tag, i);
    is_whole = is_whole && found != nullptr;
    if (found == nullptr) continue;
    found->rows.push_back(row);
    found->values.push_back(line.values[i].number);
  }
  return is_whole;
}

// Steps ascend, so what is forgotten is the end.
void History::forget_after(std::int64_t step) {
  const auto kept =
      static_cast<std::size_t>(std::ranges::upper_bound(steps_, step) - steps_.begin());
  steps_.resize(kept);
  times_.resize(kept);
  begun_ = kept;
  for (Column& column : columns_) {
    const auto end = std::ranges::lower_bound(column.rows, kept);
    column.values.resize(static_cast<std::size_t>(end - column.rows.begin()));
    column.rows.resize(column.values.size());
  }
}

// Lines of a kind have their tags in the same order, so the guess is mostly right. Null where there
// are too many: a number in a name.
Column* History::column(const std::string& tag, std::size_t guess) {
  constexpr std::size_t kMostColumns = 2000;
  if (guess < columns_.size() && columns_[guess].tag == tag) return &columns_[guess];
  if (const auto found = places_.find(tag); found != places_.end()) return &columns_[found->second];
  if (columns_.size() == kMostColumns) return nullptr;
  places_.emplace(tag, columns_.size());
  return &columns_.emplace_back(Column{.tag = tag, .rows = {}, .values = {}});
}

const Column* History::find(const std::string& tag) const {
  const auto found = places_.find(tag);
  if (found == places_.end()) return nullptr;
  const Column& column = columns_[found->second];
  return column.rows.empty() ? nullptr : &column;
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
