// Labelled texts as comma- or tab-separated values.
#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"
#include "data/format/format.h"
#include "data/table/columns.h"
#include "data/table/labels.h"
#include "data/table/rows.h"
#include "data/text/utf8.h"

namespace sullae::data {
namespace {

class TableDataset final : public Dataset {
 public:
  TableDataset(const std::filesystem::path& path, const DatasetOptions& options, TableStyle style,
               bool label_first)
      : file_(ByteFile::open(path)), style_(style) {
    RowIndex index = index_rows(*file_, style);
    if (!index.problem.empty()) meet_damage(options, index.problem);
    rows_ = std::move(index.rows);
    if (rows_.empty()) throw InputError(fmt::format("{}: has no rows", file_->name()));
    columns_ = choose_columns(fields_of(0), options, label_first, place(0));
    kept_names_ = options.kept_columns;
    unlabelled_ = options.unlabelled;
    if (columns_.header) {
      const auto names = fields_of(0);
      std::vector<std::string> texts;
      for (const std::size_t text : columns_.texts) texts.push_back(names[text]);
      log::info("{}: {}, the text {} '{}'", file_->name(),
                columns_.label ? fmt::format("the label is column '{}'", names[*columns_.label])
                               : "there is no label",
                texts.size() == 1 ? "column" : "columns", fmt::join(texts, "', '"));
      rows_.erase(rows_.begin());
    }
    if (columns_.label) find_classes();
  }

  std::size_t size() const override { return rows_.size(); }
  std::string place(std::size_t i) const override {
    return fmt::format("{}, record {}, line {}, offset {}", file_->name(), i, rows_[i].line,
                       rows_[i].offset);
  }
  const std::vector<std::string>& classes() const override { return classes_; }

  Example read(std::size_t i) const override {
    const auto fields = fields_of(i);
    if (fields.size() != columns_.count) {
      throw DamagedRecord(fmt::format("{}: has {} column{}, expected {}", place(i), fields.size(),
                                      fields.size() == 1 ? "" : "s", columns_.count));
    }
    std::string text;
    for (const std::size_t column : columns_.texts) {
      if (column != columns_.texts.front()) text += ' ';
      text += fields[column];
    }
    Example example;
    example.set(feature::kText, std::move(text));
    for (std::size_t kept = 0; kept < columns_.kept.size(); ++kept)
      example.set(std::string(feature::kColumn) + kept_names_[kept], fields[columns_.kept[kept]]);
    if (!columns_.label) return example;
    if (fields[*columns_.label].empty() && unlabelled_) return example;
    if (fields[*columns_.label].empty())
      throw DamagedRecord(fmt::format("{}: its label is empty", place(i)));
    example.set(feature::kClass, fields[*columns_.label]);
    return example;
  }

 private:
  std::vector<std::string> fields_of(std::size_t i) const {
    const std::string row = file_->read(rows_[i].offset, static_cast<std::size_t>(rows_[i].bytes));
    if (const auto at = find_invalid_utf8(row); at != std::string::npos) {
      throw DamagedRecord(fmt::format("{}: byte {} (0x{:02x}) is not UTF-8", place(i), at + 1,
                                      static_cast<unsigned char>(row[at])));
    }
    try {
      return split_row(row, style_);
    } catch (const DamagedRecord& error) {
      throw DamagedRecord(fmt::format("{}, {}", place(i), error.what()));
    }
  }

  void find_classes() {
    Labels labels;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      try {
        auto fields = fields_of(i);
        if (fields.size() == columns_.count && !fields[*columns_.label].empty())
          labels.insert(std::move(fields[*columns_.label]));
      } catch (const DamagedRecord&) {
        // Who reads the row is told.
      }
    }
    classes_.assign(labels.begin(), labels.end());
  }

  std::shared_ptr<const ByteFile> file_;
  TableStyle style_;
  std::vector<RowPlace> rows_;
  Columns columns_;
  std::vector<std::string> kept_names_;
  bool unlabelled_ = false;
  std::vector<std::string> classes_;
};

}  // namespace

Format csv_format() {
  return {.name = "csv",
          .is_table = true,
          .recognises = [](const std::filesystem::path& path,
                           std::string_view) { return has_extension(path, {".csv"}); },
          .open = [](const std::filesystem::path& path, const Opening& options) -> DatasetPtr {
            const bool quotes = options.quotes != "no";
            return std::make_shared<TableDataset>(path, options, TableStyle{',', quotes}, true);
          }};
}

Format tsv_format() {
  return {
      .name = "tsv",
      .is_table = true,
      .recognises =
          [](const std::filesystem::path& path, std::string_view start) {
            return has_extension(path, {".tsv"}) ||
                   (has_extension(path, {".txt"}) && start.find('\t') != std::string_view::npos);
          },
      // Files of this kind that hold texts are usually written without quoting.
      .open = [](const std::filesystem::path& path, const Opening& options) -> DatasetPtr {
        const bool quotes = options.quotes == "yes";
        return std::make_shared<TableDataset>(path, options, TableStyle{'\t', quotes}, false);
      }};
}

}  // namespace sullae::data
