// Labelled texts as comma- or tab-separated values.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/log.h"
#include "base/utf8.h"
#include "data/format/format.h"
#include "data/table/columns.h"
#include "data/table/file_rows.h"
#include "data/table/labels.h"

namespace sullae::data {
namespace {

// A message may have one; files' rows have none.
std::string without_line_end(std::string row) {
  if (row.ends_with('\n')) row.pop_back();
  if (row.ends_with('\r')) row.pop_back();
  return row;
}

std::vector<std::string> fields_of(const Records& records, std::size_t i, const TableStyle& style) {
  const std::string row = without_line_end(records.read(i));
  if (const auto at = find_invalid_utf8(row); at != std::string::npos) {
    throw DamagedRecord(fmt::format("{}: byte {} (0x{:02x}) is not UTF-8", records.place(i), at + 1,
                                    static_cast<unsigned char>(row[at])));
  }
  try {
    return split_row(row, style);
  } catch (const DamagedRecord& error) {
    throw DamagedRecord(fmt::format("{}, {}", records.place(i), error.what()));
  }
}

// How many fields it has.
std::string shape_of(const std::string& record, const TableStyle& style) {
  try {
    return std::to_string(split_row(without_line_end(record), style).size());
  } catch (const DamagedRecord&) {
    return "damaged";
  }
}

class TableDataset final : public Dataset {
 public:
  /// `records`: without a row of names.
  TableDataset(std::shared_ptr<const Records> records, const DatasetOptions& options,
               TableStyle style, Columns columns)
      : records_(std::move(records)),
        style_(style),
        columns_(std::move(columns)),
        kept_names_(options.kept_columns),
        unlabelled_(options.unlabelled) {
    if (columns_.label) find_classes();
  }

  std::size_t size() const override { return records_->size(); }
  std::string place(std::size_t i) const override { return records_->place(i); }
  const std::vector<std::string>& classes() const override { return classes_; }

  Example read(std::size_t i) const override {
    const auto fields = fields_of(*records_, i, style_);
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
  void find_classes() {
    Labels labels;
    std::size_t given = 0;
    for (std::size_t i = 0; i < records_->size(); ++i) {
      try {
        auto fields = fields_of(*records_, i, style_);
        if (fields.size() != columns_.count || fields[*columns_.label].empty()) continue;
        labels.insert(std::move(fields[*columns_.label]));
        ++given;
      } catch (const DamagedRecord&) {
        // Who reads the row is told.
      }
    }
    classes_.assign(labels.begin(), labels.end());
    constexpr std::size_t kFew = 4;
    if (given == classes_.size() && given >= kFew)
      log::warning_once(
          "{}: each of its {} rows has a label of its own, in column {}: is that the label? Say "
          "which is with --label-column, by its name where the first row has names",
          records_->place(0), given, *columns_.label + 1);
  }

  std::shared_ptr<const Records> records_;
  TableStyle style_;
  Columns columns_;
  std::vector<std::string> kept_names_;
  bool unlabelled_ = false;
  std::vector<std::string> classes_;
};

DatasetPtr open_table(const std::filesystem::path& path, const DatasetOptions& options,
                      TableStyle style, bool label_first) {
  auto file = ByteFile::open(path);
  RowIndex index = index_rows(*file, style);
  if (!index.problem.empty()) meet_damage(options, index.problem);
  if (index.rows.empty()) throw InputError(fmt::format("{}: has no rows", file->name()));
  const auto rows = std::make_shared<FileRows>(std::move(file), std::move(index.rows));
  const auto first = fields_of(*rows, 0, style);
  Columns columns = choose_columns(first, options, label_first, rows->place(0));
  if (columns.header || columns.label) {
    const auto name_of = [&](std::size_t column) {
      return columns.header ? fmt::format("'{}'", first[column]) : fmt::to_string(column + 1);
    };
    std::vector<std::string> texts;
    for (const std::size_t text : columns.texts) texts.push_back(name_of(text));
    log::info_once(
        "{}: {}{}, the text {} {}", rows->name(), columns.header ? "" : "no row of names: ",
        columns.label ? "the label is column " + name_of(*columns.label) : "there is no label",
        texts.size() == 1 ? "column" : "columns", fmt::join(texts, ", "));
  }
  if (columns.header) rows->drop_first();
  return std::make_shared<TableDataset>(rows, options, style, std::move(columns));
}

// Columns have numbers.
DatasetPtr open_rows(std::shared_ptr<const Records> records, DatasetOptions options,
                     TableStyle style, bool label_first) {
  options.header = "no";
  Columns columns =
      choose_columns(fields_of(*records, 0, style), options, label_first, records->place(0));
  return std::make_shared<TableDataset>(std::move(records), options, style, std::move(columns));
}

TableStyle csv_style(const DatasetOptions& options) { return {',', options.quotes != "no"}; }
// Files of this kind that hold texts are usually written without quoting.
TableStyle tsv_style(const DatasetOptions& options) { return {'\t', options.quotes == "yes"}; }

}  // namespace

Format csv_format() {
  return {.name = "csv",
          .is_table = true,
          .recognises = [](const std::filesystem::path& path,
                           std::string_view) { return has_extension(path, {".csv"}); },
          .open = [](const std::filesystem::path& path, const Opening& options) -> DatasetPtr {
            return open_table(path, options, csv_style(options), true);
          },
          .open_records = [](std::shared_ptr<const Records> records,
                             const DatasetOptions& options) -> DatasetPtr {
            return open_rows(std::move(records), options, csv_style(options), true);
          },
          .shape = [](const std::string& record, const DatasetOptions& options) -> std::string {
            return shape_of(record, csv_style(options));
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
      .open = [](const std::filesystem::path& path, const Opening& options) -> DatasetPtr {
        return open_table(path, options, tsv_style(options), false);
      },
      .open_records = [](std::shared_ptr<const Records> records,
                         const DatasetOptions& options) -> DatasetPtr {
        return open_rows(std::move(records), options, tsv_style(options), false);
      },
      .shape = [](const std::string& record, const DatasetOptions& options) -> std::string {
        return shape_of(record, tsv_style(options));
      }};
}

}  // namespace sullae::data
