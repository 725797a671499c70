#include "data/table/rows.h"

#include <fmt/format.h>

#include <algorithm>

#include "sullae/data/dataset.h"

namespace sullae::data {
namespace {

class RowFinder {
 public:
  RowFinder(std::string name, const TableStyle& style) : name_(std::move(name)), style_(style) {}

  void take(std::string_view piece) {
    // Spreadsheets write a mark for UTF-8, which is no part of the first field.
    constexpr std::string_view kMark = "\xef\xbb\xbf";
    if (offset_ == 0 && piece.starts_with(kMark)) {
      offset_ = row_start_ = field_start_ = kMark.size();
      piece.remove_prefix(kMark.size());
    }
    for (const char c : piece) {
      step(c);
      ++offset_;
    }
  }

  RowIndex finish() {
    if (quoted_) {
      index_.problem = fmt::format(
          "{}, record {}, line {}, offset {}: is truncated: the quote opened at line {}, byte {} "
          "is "
          "not closed by the end of the file",
          name_, index_.rows.size(), row_line_, row_start_, quote_line_, quote_offset_);
    } else {
      end_row(offset_);
    }
    return std::move(index_);
  }

 private:
  void step(char c) {
    if (quoted_) {
      // A doubled quote leaves and enters again.
      if (c == '"') quoted_ = false;
      if (c == '\n') ++line_;
      was_quoted_ = true;
    } else if (c == '"' && style_.quotes && (field_start_ == offset_ || was_quoted_)) {
      quoted_ = true;
      quote_line_ = line_;
      quote_offset_ = offset_;
    } else if (c == '\n') {
      end_row(offset_);
      row_start_ = offset_ + 1;
      row_line_ = ++line_;
      start_field();
    } else if (c == style_.separator) {
      start_field();
    } else {
      was_quoted_ = false;
    }
    last_ = c;
  }

  void start_field() {
    field_start_ = offset_ + 1;
    was_quoted_ = false;
  }

  void end_row(std::uint64_t end) {
    if (end > row_start_ && last_ == '\r') --end;
    if (end > row_start_) index_.rows.push_back({row_start_, end - row_start_, row_line_});
  }

  std::string name_;
  TableStyle style_;
  RowIndex index_;
  std::uint64_t offset_ = 0;
  std::uint64_t line_ = 1;
  std::uint64_t row_start_ = 0;
  std::uint64_t row_line_ = 1;
  std::uint64_t field_start_ = 0;
  bool quoted_ = false;
  bool was_quoted_ = false;  // the character before closed a quote, or was within
  std::uint64_t quote_line_ = 0;
  std::uint64_t quote_offset_ = 0;
  char last_ = '\n';
};

}  // namespace

RowIndex index_rows(const ByteFile& file, const TableStyle& style) {
  constexpr std::size_t kPiece = std::size_t{1} << 20;
  RowFinder finder(file.name(), style);
  for (std::uint64_t offset = 0; offset < file.size(); offset += kPiece) {
    finder.take(file.read(
        offset, static_cast<std::size_t>(std::min<std::uint64_t>(kPiece, file.size() - offset))));
  }
  return finder.finish();
}

std::vector<std::string> split_row(std::string_view row, const TableStyle& style) {
  std::vector<std::string> fields(1);
  std::size_t i = 0;
  const auto fail = [&](const char* what) {
    throw DamagedRecord(fmt::format("byte {}: {}", i + 1, what));
  };
  while (true) {
    if (style.quotes && i < row.size() && row[i] == '"') {
      for (++i;; ++i) {
        if (i == row.size()) fail("the quoted field is not closed");
        if (row[i] == '"' && (i + 1 == row.size() || row[i + 1] != '"')) break;
        if (row[i] == '"') ++i;
        fields.back() += row[i];
      }
      ++i;
      if (i < row.size() && row[i] != style.separator)
        fail("expected a separator or the end of the line after the closing quote");
    } else {
      for (; i < row.size() && row[i] != style.separator; ++i) {
        if (style.quotes && row[i] == '"')
          fail("a bare quote: a field with quotes must be in quotes, with each one inside doubled");
        if (row[i] == '\n') fail("a line end: expected one row, and line ends in quotes");
        fields.back() += row[i];
      }
    }
    if (i == row.size()) return fields;
    ++i;
    fields.emplace_back();
  }
}

}  // namespace sullae::data
