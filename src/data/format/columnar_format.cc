// Parquet and Arrow files: columns by name and type.
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <arrow/util/byte_size.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "data/columnar/byte_source.h"
#include "data/columnar/feature_column.h"
#include "data/columnar/table_file.h"
#include "data/format/format.h"
#include "data/table/typed_table.h"

namespace sullae::data {
namespace {

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

class ColumnarDataset final : public TypedTable {
 public:
  ColumnarDataset(std::unique_ptr<TableFile> file, const std::filesystem::path& path,
                  const Opening& opening)
      : TypedTable(path.string()),
        file_(std::move(file)),
        cache_(opening.decoded),
        number_(cache_->add_file()) {
    const auto leaves = leaves_of(*file_->schema());
    std::vector<TypedColumn> columns;
    for (const Leaf& leaf : leaves) columns.push_back(describe(leaf));
    choose(columns, opening);
    for (const std::size_t leaf : used()) use(leaves[leaf]);
    for (const std::int64_t rows : file_->rows()) {
      starts_.push_back(size_);
      size_ += static_cast<std::size_t>(rows);
    }
    find_classes(classes_beside(path), [&](const Act& act) { for_each(leaves[*label()], act); });
  }

  std::size_t size() const override { return size_; }
  std::string place(std::size_t i) const override {
    const auto [piece, row] = find(i);
    return fmt::format("{}, record {}, {} {}, row {}", name(), i, file_->piece_name(), piece, row);
  }

  Example read(std::size_t i) const override {
    const auto [piece, row] = find(i);
    const auto decoded = decoded_piece(piece);
    if (!decoded->problem.empty())
      throw DamagedRecord(fmt::format("{}: cannot be read: {}", place(i), decoded->problem));
    const auto found = decoded->find(static_cast<std::int64_t>(row));
    return make_example(i,
                        [&](std::size_t k) { return found.first->columns[k]->at(found.second); });
  }

 private:
  std::pair<std::size_t, std::size_t> find(std::size_t i) const {
    const auto piece =
        static_cast<std::size_t>(std::ranges::upper_bound(starts_, i) - starts_.begin()) - 1;
    return {piece, i - starts_[piece]};
  }

  void use(const Leaf& leaf) {
    if (fields_.empty() || fields_.back() != leaf.path.front())
      fields_.push_back(leaf.path.front());
    paths_.push_back(leaf.path);
    paths_.back().front() = static_cast<int>(fields_.size()) - 1;
  }

  std::shared_ptr<const Decoded> decoded_piece(std::size_t piece) const {
    return std::static_pointer_cast<const Decoded>(cache_->get(number_, piece, name(), [&] {
      auto decoded = std::make_shared<Decoded>();
      std::size_t bytes = sizeof(Decoded);
      // Who reads its rows is told, and it is not tried for each of them.
      try {
        std::int64_t begin = 0;
        for (const auto& batch : file_->read(piece, fields_)) {
          Decoded::Batch own{.begin = begin, .columns = {}};
          for (std::size_t k = 0; k < paths_.size(); ++k)
            own.columns.push_back(make_feature_column(*batch, paths_[k], is_kept(k)));
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

  // Whole numbers together, where all are there. What is damaged who reads it is told.
  void for_each(const Leaf& label, const Act& act) const {
    auto path = label.path;
    const int field = std::exchange(path.front(), 0);
    const auto act_on = [&](const FeatureColumn& column, std::int64_t row) {
      try {
        if (const auto feature = column.at(row)) act(*feature);
      } catch (const DamagedRecord&) {
        return;
      }
    };
    const bool are_numbers = describe(label).kind == FeatureKind::integer;
    const auto act_on_all = [&](const FeatureColumn& column) {
      try {
        const auto values = are_numbers ? column.all() : std::nullopt;
        if (values) act(*values);
        return values.has_value();
      } catch (const DamagedRecord&) {  // one of them
        return false;
      }
    };
    for (std::size_t piece = 0; piece < file_->rows().size(); ++piece) {
      try {
        for (const auto& batch : file_->read(piece, {field})) {
          const auto column = make_feature_column(*batch, path);
          if (act_on_all(*column)) continue;
          for (std::int64_t row = 0; row < batch->num_rows(); ++row) act_on(*column, row);
        }
      } catch (const DamagedRecord&) {
        continue;
      }
    }
  }

  std::unique_ptr<TableFile> file_;
  std::shared_ptr<PieceCache> cache_;
  std::uint64_t number_;
  std::vector<int> fields_;
  std::vector<std::vector<int>> paths_;  // of used(), beginning with the place in fields_
  std::vector<std::size_t> starts_;      // of pieces
  std::size_t size_ = 0;
};

// What is damaged and left out has no samples.
class NoSamples final : public Dataset {
 public:
  std::size_t size() const override { return 0; }
  Example read(std::size_t) const override { throw InputError("there are no samples"); }
  std::string place(std::size_t) const override { return "nowhere"; }
};

DatasetPtr open_columnar(
    const std::filesystem::path& path, const Opening& opening,
    std::unique_ptr<TableFile> (*open)(const std::shared_ptr<const ByteFile>&)) {
  try {
    return std::make_shared<ColumnarDataset>(open(ByteFile::open(path)), path, opening);
  } catch (const DamagedRecord& error) {
    meet_damage(opening, error.what());
    return std::make_shared<NoSamples>();
  }
}

}  // namespace

DatasetPtr open_parquet_set(const std::filesystem::path& path, const Opening& opening) {
  return open_columnar(path, opening, &open_parquet);
}
DatasetPtr open_arrow_set(const std::filesystem::path& path, const Opening& opening) {
  return open_columnar(path, opening, &open_arrow);
}

}  // namespace sullae::data
