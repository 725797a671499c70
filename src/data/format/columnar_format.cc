// Parquet and Arrow files: columns by name and type.
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <arrow/util/byte_size.h>
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <unordered_set>
#include <utility>

#include "data/columnar/byte_source.h"
#include "data/columnar/feature_column.h"
#include "data/columnar/roles.h"
#include "data/columnar/table_file.h"
#include "data/format/format.h"
#include "data/table/labels.h"
#include "data/text/utf8.h"

namespace sullae::data {
namespace {

using Integers = std::vector<std::int64_t>;

// A piece: its batches, each with a column for each leaf that is used.
struct Decoded {
  struct Batch {
    std::int64_t begin = 0;
    std::vector<std::unique_ptr<FeatureColumn>> columns;
  };
  std::vector<Batch> batches;
  std::string problem;  ///< why there are none

  std::pair<const Batch*, std::int64_t> find(std::int64_t row) const {
    const auto after = std::ranges::upper_bound(batches, row, {}, &Batch::begin);
    return {&*(after - 1), row - (after - 1)->begin};
  }
};

class ColumnarDataset final : public Dataset {
 public:
  ColumnarDataset(std::unique_ptr<TableFile> file, const std::filesystem::path& path,
                  const Opening& opening)
      : name_(path.string()),
        file_(std::move(file)),
        cache_(opening.decoded),
        number_(cache_->add_file()),
        unlabelled_(opening.unlabelled) {
    const auto leaves = leaves_of(*file_->schema());
    roles_ = choose_roles(leaves, opening, name_);
    for (const std::int64_t rows : file_->rows()) {
      starts_.push_back(size_);
      size_ += static_cast<std::size_t>(rows);
    }
    if (roles_.label) {
      find_classes(path, leaves[*roles_.label]);
    } else {
      classes_ = classes_beside(path);
    }
    take_columns(leaves);
  }

  std::size_t size() const override { return size_; }
  std::string place(std::size_t i) const override {
    const auto [piece, row] = find(i);
    return fmt::format("{}, record {}, {} {}, row {}", name_, i, file_->piece_name(), piece, row);
  }
  const std::vector<std::string>& classes() const override { return classes_; }

  Example read(std::size_t i) const override {
    const auto [piece, row] = find(i);
    const auto decoded = decoded_piece(piece);
    if (!decoded->problem.empty())
      throw DamagedRecord(fmt::format("{}: cannot be read: {}", place(i), decoded->problem));
    const auto [batch, at] = decoded->find(static_cast<std::int64_t>(row));
    Example example;
    for (const auto& [name, column] : roles_.features) {
      auto feature = cell(i, *batch, column, at);
      if (feature) example.features.insert_or_assign(name, *std::move(feature));
    }
    if (!roles_.texts.empty()) example.set(feature::kText, text(i, *batch, at));
    if (roles_.label) set_label(i, cell(i, *batch, *roles_.label, at), example);
    return example;
  }

 private:
  std::pair<std::size_t, std::size_t> find(std::size_t i) const {
    const auto piece =
        static_cast<std::size_t>(std::ranges::upper_bound(starts_, i) - starts_.begin()) - 1;
    return {piece, i - starts_[piece]};
  }

  // What is used of the file, by numbers of its own from here on.
  void take_columns(const std::vector<Leaf>& leaves) {
    std::vector<std::size_t> used = roles_.texts;
    for (const auto& [name, leaf] : roles_.features) used.push_back(leaf);
    if (roles_.label) used.push_back(*roles_.label);
    std::ranges::sort(used);
    used.erase(std::unique(used.begin(), used.end()), used.end());
    const auto number = [&](std::size_t leaf) {
      return static_cast<std::size_t>(std::ranges::find(used, leaf) - used.begin());
    };
    for (const std::size_t leaf : used) use(leaves[leaf]);
    for (auto& text : roles_.texts) text = number(text);
    for (auto& [name, leaf] : roles_.features) leaf = number(leaf);
    if (roles_.label) roles_.label = number(*roles_.label);
  }

  void use(const Leaf& leaf) {
    if (fields_.empty() || fields_.back() != leaf.path.front())
      fields_.push_back(leaf.path.front());
    column_names_.push_back(leaf.name);
    are_strings_.push_back(is_text(*leaf.type));
    paths_.push_back(leaf.path);
    paths_.back().front() = static_cast<int>(fields_.size()) - 1;
  }

  std::shared_ptr<const Decoded> decoded_piece(std::size_t piece) const {
    return std::static_pointer_cast<const Decoded>(cache_->get(number_, piece, name_, [&] {
      auto decoded = std::make_shared<Decoded>();
      std::size_t bytes = sizeof(Decoded);
      // Who reads its rows is told, and it is not tried for each of them.
      try {
        std::int64_t begin = 0;
        for (const auto& batch : file_->read(piece, fields_)) {
          Decoded::Batch own{.begin = begin, .columns = {}};
          for (const auto& path : paths_) own.columns.push_back(make_feature_column(*batch, path));
          decoded->batches.push_back(std::move(own));
          begin += batch->num_rows();
          bytes += static_cast<std::size_t>(arrow::util::TotalBufferSize(*batch));
        }
      } catch (const DamagedRecord& error) {
        decoded->problem = error.what();
      }
      return PieceCache::Piece{decoded, bytes};
    }));
  }

  std::optional<Feature> cell(std::size_t i, const Decoded::Batch& batch, std::size_t column,
                              std::int64_t row) const {
    try {
      return batch.columns[column]->at(row);
    } catch (const DamagedRecord& error) {
      throw DamagedRecord(
          fmt::format("{}, column '{}': {}", place(i), column_names_[column], error.what()));
    }
  }

  std::string text(std::size_t i, const Decoded::Batch& batch, std::int64_t row) const {
    std::string text;
    for (const std::size_t column : roles_.texts) {
      if (column == roles_.texts.front()) {
        text = cell_text(i, batch, column, row);
      } else {
        text += ' ' + cell_text(i, batch, column, row);
      }
    }
    return text;
  }

  // Empty for null: Spark writes an empty text so. What says that it is a string is UTF-8 by Parquet's and Arrow's word.
  std::string cell_text(std::size_t i, const Decoded::Batch& batch, std::size_t column,
                        std::int64_t row) const {
    auto feature = cell(i, batch, column, row);
    if (!feature) return "";
    if (auto* const texts = std::get_if<std::vector<std::string>>(&*feature);
        texts != nullptr && texts->size() == 1 && are_strings_[column])
      return std::move(texts->front());
    std::string text = text_of(*feature);
    if (const auto at = find_invalid_utf8(text); at != std::string::npos) {
      throw DamagedRecord(fmt::format("{}, column '{}': byte {} (0x{:02x}) is not UTF-8", place(i),
                                      column_names_[column], at + 1,
                                      static_cast<unsigned char>(text[at])));
    }
    return text;
  }

  void set_label(std::size_t i, const std::optional<Feature>& feature, Example& example) const {
    if (feature && !numbers_.empty()) {
      example.set(feature::kClass, class_of(i, std::get<Integers>(*feature).front()));
      return;
    }
    std::string name = feature ? text_of(*feature) : std::string();
    if (name.empty() && unlabelled_) return;
    if (name.empty()) throw DamagedRecord(fmt::format("{}: its label is empty", place(i)));
    example.set(feature::kClass, std::move(name));
  }

  const std::string& class_of(std::size_t i, std::int64_t label) const {
    const auto found = std::ranges::lower_bound(numbers_, label);
    if (found == numbers_.end() || *found != label)
      throw DamagedRecord(fmt::format("{}: its label is {}, expected 0 to {}, as classes.txt has",
                                      place(i), label, classes_.size() - 1));
    return classes_[static_cast<std::size_t>(found - numbers_.begin())];
  }

  // Named, or those that there are.
  void find_classes(const std::filesystem::path& path, const Leaf& label) {
    const bool are_numbers = feature_kind(*label.type) == FeatureKind::integer;
    classes_ = classes_beside(path);
    if (are_numbers && !classes_.empty()) {
      numbers_.resize(classes_.size());
      std::iota(numbers_.begin(), numbers_.end(), 0);
    }
    if (!classes_.empty()) return;
    std::set<std::int64_t> numbers;
    std::unordered_set<std::string> texts;
    for_each_label(label, [&](const Feature& feature) {
      if (are_numbers) {
        numbers.insert(std::get<Integers>(feature).begin(), std::get<Integers>(feature).end());
      } else {
        texts.insert(text_of(feature));
      }
    });
    texts.erase("");
    numbers_.assign(numbers.begin(), numbers.end());
    for (const std::int64_t number : numbers_) classes_.push_back(std::to_string(number));
    const Labels sorted(texts.begin(), texts.end());
    classes_.insert(classes_.end(), sorted.begin(), sorted.end());
  }

  template <class Do>
  static void act_on(const FeatureColumn& column, std::int64_t row, const Do& act) {
    try {
      if (const auto feature = column.at(row)) act(*feature);
    } catch (const DamagedRecord&) {
      // Who reads it is told.
    }
  }

  template <class Do>
  void for_each_label(const Leaf& label, const Do& act) const {
    auto path = label.path;
    const int field = std::exchange(path.front(), 0);
    for (std::size_t piece = 0; piece < file_->rows().size(); ++piece) {
      try {
        for (const auto& batch : file_->read(piece, {field})) {
          const auto column = make_feature_column(*batch, path);
          for (std::int64_t row = 0; row < batch->num_rows(); ++row) act_on(*column, row, act);
        }
      } catch (const DamagedRecord&) {
        // Who reads its rows is told.
      }
    }
  }

  std::string name_;
  std::unique_ptr<TableFile> file_;
  std::shared_ptr<PieceCache> cache_;
  std::uint64_t number_;
  bool unlabelled_;
  Roles roles_;
  std::vector<int> fields_;
  std::vector<std::vector<int>> paths_;  // of leaves, beginning with the place in fields_
  std::vector<std::string> column_names_;
  std::vector<bool> are_strings_;
  std::vector<std::size_t> starts_;  // of pieces
  std::size_t size_ = 0;
  std::vector<std::string> classes_;
  std::vector<std::int64_t> numbers_;  // of classes_, where labels are numbers, rising
};

// What is damaged and left out has no samples.
class NoSamples final : public Dataset {
 public:
  std::size_t size() const override { return 0; }
  Example read(std::size_t) const override { throw InputError("there are no samples"); }
  std::string place(std::size_t) const override { return "nowhere"; }
};

DatasetPtr open_columnar(const std::filesystem::path& path, const Opening& opening,
                         std::unique_ptr<TableFile> (*open)(std::shared_ptr<const ByteFile>)) {
  try {
    return std::make_shared<ColumnarDataset>(open(ByteFile::open(path)), path, opening);
  } catch (const DamagedRecord& error) {
    meet_damage(opening, error.what());
    return std::make_shared<NoSamples>();
  }
}

}  // namespace

Format parquet_format() {
  return {.name = "parquet",
          .is_table = true,
          .recognises =
              [](const std::filesystem::path& path, std::string_view start) {
                return start.starts_with("PAR1") || has_extension(path, {".parquet"});
              },
          .open =
              [](const std::filesystem::path& path, const Opening& opening) {
                return open_columnar(path, opening, &open_parquet);
              }};
}

Format arrow_format() {
  return {.name = "arrow",
          .is_table = true,
          .recognises =
              [](const std::filesystem::path& path, std::string_view start) {
                return start.starts_with("ARROW1") || has_extension(path, {".arrow", ".feather"});
              },
          .open =
              [](const std::filesystem::path& path, const Opening& opening) {
                return open_columnar(path, opening, &open_arrow);
              }};
}

}  // namespace sullae::data
