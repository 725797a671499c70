// Rows of comma- or tab-separated values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/record/byte_file.h"

namespace sullae::data {

/// How a table is written.
struct TableStyle {
  char separator = ',';
  /// RFC 4180: a field in double quotes may hold separators and line ends, and "" for a quote.
  /// Without it a quote is a character like others.
  bool quotes = true;
};

struct RowPlace {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;  ///< without the line end
  std::uint64_t line = 0;   ///< from 1
};

/// Where the rows of a table are; empty lines are none. `problem` says what ended the search early,
/// if anything did. Decides only where rows end: what is wrong within one shows in split_row.
struct RowIndex {
  std::vector<RowPlace> rows;
  std::string problem;
};
RowIndex index_rows(const ByteFile& file, const TableStyle& style);

/// The fields of a row. Throws DamagedRecord that says at which byte, from 1, of the row a quote
/// stands where none may.
std::vector<std::string> split_row(std::string_view row, const TableStyle& style);

}  // namespace sullae::data
