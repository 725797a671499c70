// The rows of a file, as records.
#pragma once

#include <fmt/format.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "data/record/records.h"
#include "data/table/rows.h"

namespace sullae::data {

class FileRows final : public Records {
 public:
  FileRows(std::shared_ptr<const ByteFile> file, std::vector<RowPlace> rows)
      : file_(std::move(file)), rows_(std::move(rows)) {}

  /// Before others see it: the first row names columns.
  void drop_first() { rows_.erase(rows_.begin()); }

  const std::string& name() const override { return file_->name(); }
  std::size_t size() const override { return rows_.size(); }
  std::string read(std::size_t i) const override {
    return file_->read(rows_[i].offset, static_cast<std::size_t>(rows_[i].bytes));
  }
  std::string place(std::size_t i) const override {
    return fmt::format("{}, record {}, line {}, offset {}", name(), i, rows_[i].line,
                       rows_[i].offset);
  }

 private:
  std::shared_ptr<const ByteFile> file_;
  std::vector<RowPlace> rows_;
};

}  // namespace sullae::data
