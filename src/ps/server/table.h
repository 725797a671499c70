// A server's rows of a table.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <vector>

#include "ps/rows.h"
#include "ps/rule.h"
#include "ps/server/huge_pages.h"
#include "ps/server/row_numbers.h"

namespace sullae::ps {

/// Rows are made when they are first updated: one that never was is what it begins as, and takes no
/// memory. A step leaves alone rows without a gradient, and what the rule keeps of them, as
/// PyTorch's SparseAdam does. Used by one thread.
class Table {
 public:
  Table(const TableShape& shape, const Rule& rule);

  std::size_t dimension() const { return dimension_; }
  std::size_t rows() const { return rows_; }
  /// Floats of a row in Rows::data.
  std::size_t width() const { return width_; }

  /// The values of these rows, one behind the other.
  void look_up(std::span<const std::uint64_t> ids, float* to) const;

  struct Gradient {
    double learning_rate = 0;
    std::span<const std::uint64_t> ids;
    const float* values = nullptr;  // of row after row
  };
  void apply(const Gradient& gradient, float scale = 1);
  /// To be applied with others.
  void add(const Gradient& gradient);
  void apply_sum(float scale);

  /// As they were made, from the one with this place on; fewer than `most` where these are the
  /// last.
  Rows part(std::size_t first, std::size_t most) const;
  /// In place of those of the same numbers.
  void put(const Rows& rows);
  /// No rows, after so many steps.
  void clear(std::int64_t steps);
  std::int64_t steps() const { return steps_; }

  /// For a file, as of a shard.
  nlohmann::json numbers() const;
  void restore(const nlohmann::json& numbers);
  std::vector<std::span<std::byte>> arrays();
  /// When these have been filled.
  void restored();

 private:
  // Rows do not move when there are more of them.
  struct Chunk {
    Chunk(std::size_t rows, std::size_t width) : ids(rows), data(rows * width) {}
    std::vector<std::uint64_t> ids;
    std::vector<float, HugePages<float>> data;
  };

  std::uint32_t make(std::uint64_t id);
  std::uint32_t append(std::uint64_t id);
  float* row(std::uint32_t number);
  const float* row(std::uint32_t number) const;
  void begin(std::uint64_t id, float* values) const;

  TableShape shape_;
  Rule rule_;
  std::size_t dimension_;
  std::size_t arrays_;  // of the rule's state
  std::size_t width_;
  std::uint32_t chunk_;  // rows of one: a power of two
  std::int64_t steps_ = 0;
  std::uint32_t rows_ = 0;
  RowNumbers numbers_;
  std::vector<std::unique_ptr<Chunk>> chunks_;

  RowNumbers places_;  // in the sum
  std::vector<std::uint64_t> summed_;
  std::vector<float> sum_;
  double learning_rate_ = 0;
};

}  // namespace sullae::ps
