#include "ps/server/table.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>

#include "base/hash.h"

namespace sullae::ps {
namespace {

constexpr std::size_t kBytesOfAChunk = std::size_t{4} << 20;
// Rows are at random places in memory: so many are on their way together.
constexpr std::size_t kRowsAtOnce = 32;

void prefetch(const float* row, std::size_t floats) {
  constexpr std::size_t kFloatsALine = 16;
  constexpr std::size_t kMostLines = 32;
  for (std::size_t i = 0; i < std::min(floats, kMostLines * kFloatsALine); i += kFloatsALine)
    __builtin_prefetch(row + i);
}

// In (0, 1].
double fraction(std::uint64_t bits) { return static_cast<double>((bits >> 11) + 1) * 0x1p-53; }

}  // namespace

Table::Table(const TableShape& shape, const Rule& rule)
    : shape_(shape),
      rule_(rule),
      dimension_(static_cast<std::size_t>(shape.dimension)),
      arrays_(arrays_of(rule)),
      width_(dimension_ * (1 + arrays_)),
      chunk_(static_cast<std::uint32_t>(
          std::bit_floor(std::max<std::size_t>(1, kBytesOfAChunk / (width_ * sizeof(float)))))) {}

float* Table::row(std::uint32_t number) {
  return chunks_[number / chunk_]->data.data() + number % chunk_ * width_;
}

const float* Table::row(std::uint32_t number) const {
  return chunks_[number / chunk_]->data.data() + number % chunk_ * width_;
}

// By G. Box and M. Muller.
void Table::begin(std::uint64_t id, float* values) const {
  std::uint64_t state = mix64(shape_.seed ^ mix64(id + 0x9e3779b97f4a7c15U));
  const auto next = [&] {
    return fraction(mix64(state += 0x9e3779b97f4a7c15U));
  };
  for (std::size_t i = 0; i < dimension_; i += 2) {
    const double radius = shape_.deviation * std::sqrt(-2 * std::log(next()));
    const double angle = 2 * std::numbers::pi * next();
    values[i] = static_cast<float>(radius * std::cos(angle));
    if (i + 1 < dimension_) values[i + 1] = static_cast<float>(radius * std::sin(angle));
  }
}

void Table::look_up(std::span<const std::uint64_t> ids, float* to) const {
  const float* places[kRowsAtOnce];
  for (std::size_t from = 0; from < ids.size(); from += kRowsAtOnce) {
    const auto some = ids.subspan(from, std::min(kRowsAtOnce, ids.size() - from));
    for (const std::uint64_t id : some) numbers_.prefetch(id);
    for (std::size_t i = 0; i < some.size(); ++i) {
      const std::uint32_t number = numbers_.find(some[i]);
      places[i] = number == RowNumbers::kNone ? nullptr : row(number);
      if (places[i] != nullptr) prefetch(places[i], dimension_);
    }
    for (std::size_t i = 0; i < some.size(); ++i, to += dimension_) {
      if (places[i] == nullptr)
        begin(some[i], to);
      else
        std::copy_n(places[i], dimension_, to);
    }
  }
}

std::uint32_t Table::append(std::uint64_t id) {
  const std::uint32_t number = rows_++;
  if (number % chunk_ == 0) chunks_.push_back(std::make_unique<Chunk>(chunk_, width_));
  chunks_.back()->ids[number % chunk_] = id;
  numbers_.insert(id, number);
  return number;
}

std::uint32_t Table::make(std::uint64_t id) {
  const std::uint32_t found = numbers_.find(id);
  if (found != RowNumbers::kNone) return found;
  const std::uint32_t number = append(id);
  begin(id, row(number));
  if (rule_.kind == Rule::Kind::adagrad)
    std::fill_n(row(number) + dimension_, dimension_,
                static_cast<float>(rule_.initial_accumulator));
  return number;
}

void Table::apply(const Gradient& gradient, float scale) {
  const RuleStep step(rule_, gradient.learning_rate, ++steps_);
  const float* from = gradient.values;
  float* places[kRowsAtOnce];
  for (std::size_t first = 0; first < gradient.ids.size(); first += kRowsAtOnce) {
    const std::size_t count = std::min(kRowsAtOnce, gradient.ids.size() - first);
    for (std::size_t i = 0; i < count; ++i) numbers_.prefetch(gradient.ids[first + i]);
    for (std::size_t i = 0; i < count; ++i) {
      places[i] = row(make(gradient.ids[first + i]));
      prefetch(places[i], width_);
    }
    for (std::size_t i = 0; i < count; ++i, from += dimension_) {
      float* const values = places[i];
      step.apply({.values = values,
                  .first = arrays_ > 0 ? values + dimension_ : nullptr,
                  .second = arrays_ > 1 ? values + 2 * dimension_ : nullptr},
                 from, dimension_, scale);
    }
  }
}

void Table::add(const Gradient& gradient) {
  const float* from = gradient.values;
  for (const std::uint64_t id : gradient.ids) {
    const std::uint32_t place = places_.find(id);
    if (place == RowNumbers::kNone) {
      places_.insert(id, static_cast<std::uint32_t>(summed_.size()));
      summed_.push_back(id);
      sum_.insert(sum_.end(), from, from + dimension_);
    } else {
      float* const sum = sum_.data() + place * dimension_;
      for (std::size_t i = 0; i < dimension_; ++i) sum[i] += from[i];
    }
    from += dimension_;
  }
  learning_rate_ = gradient.learning_rate;
}

void Table::apply_sum(float scale) {
  apply({.learning_rate = learning_rate_, .ids = summed_, .values = sum_.data()}, scale);
  places_.clear();
  summed_.clear();
  sum_.clear();
}

Rows Table::part(std::size_t first, std::size_t most) const {
  Rows rows;
  const std::size_t last = std::min<std::size_t>(first + most, rows_);
  for (std::size_t number = first; number < last; ++number) {
    const Chunk& chunk = *chunks_[number / chunk_];
    rows.ids.push_back(chunk.ids[number % chunk_]);
    const float* const from = row(static_cast<std::uint32_t>(number));
    rows.data.insert(rows.data.end(), from, from + width_);
  }
  return rows;
}

void Table::put(const Rows& rows) {
  for (std::size_t i = 0; i < rows.ids.size(); ++i)
    std::copy_n(rows.data.data() + i * width_, width_, row(make(rows.ids[i])));
}

void Table::clear(std::int64_t steps) {
  steps_ = steps;
  rows_ = 0;
  numbers_.clear();
  chunks_.clear();
}

nlohmann::json Table::numbers() const { return {{"rows", rows_}, {"steps", steps_}}; }

void Table::restore(const nlohmann::json& numbers) {
  numbers.at("rows").get_to(rows_);
  numbers.at("steps").get_to(steps_);
  for (std::uint64_t made = 0; made < rows_; made += chunk_)
    chunks_.push_back(std::make_unique<Chunk>(chunk_, width_));
}

void Table::restored() {
  numbers_.reserve(rows_);
  for (std::uint32_t number = 0; number < rows_; ++number)
    numbers_.insert(chunks_[number / chunk_]->ids[number % chunk_], number);
}

std::vector<std::span<std::byte>> Table::arrays() {
  std::vector<std::span<std::byte>> arrays;
  for (const auto& chunk : chunks_) {
    arrays.push_back(std::as_writable_bytes(std::span(chunk->ids)));
    arrays.push_back(std::as_writable_bytes(std::span(chunk->data)));
  }
  return arrays;
}

}  // namespace sullae::ps
