// What tables with names and types have in common, however they are stored: from cells to samples.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/table/roles.h"
#include "data/table/typed_column.h"
#include "sullae/data/dataset.h"

namespace sullae::data {

/// "7", "0.5", the bytes themselves; several are separated by spaces.
std::string text_of(const Feature& feature);

class TypedTable : public Dataset {
 public:
  const std::vector<std::string>& classes() const final { return classes_; }
  std::vector<FeatureType> feature_types() const final;

 protected:
  explicit TypedTable(std::string name) : name_(std::move(name)) {}

  const std::string& name() const { return name_; }
  /// Says what columns are; `used()` are the numbers of those that samples are made of, rising.
  void choose(const std::vector<TypedColumn>& columns, const DatasetOptions& options);
  const std::vector<std::size_t>& used() const { return used_; }
  /// Whether used()[k] stands beside predictions: what it holds, and all of it.
  bool is_kept(std::size_t k) const { return kept_[k]; }
  std::optional<std::size_t> label() const { return label_; }
  /// The classes are `named`, whose numbers whole numbers are, or those that occur:
  /// `for_each_label(act)` calls act with each.
  using Act = std::function<void(const Feature&)>;
  void find_classes(std::vector<std::string> named,
                    const std::function<void(const Act&)>& for_each_label);

  /// `cell(k)` is that of the column used()[k], or none; it throws DamagedRecord, which says why
  /// and not where.
  template <class Cell>
  Example make_example(std::size_t i, const Cell& cell) const {
    Example example;
    const auto read = [&](std::size_t k) -> std::optional<Feature> {
      try {
        return cell(k);
      } catch (const DamagedRecord& error) {
        fail(i, k, error.what());
      }
    };
    for (const auto& [feature, k] : roles_.features) {
      auto values = read(k);
      if (!values) continue;
      if (std::holds_alternative<Values<double>>(*values) && !is_of_kept(feature))
        values = to_float32(*values);
      example.features.insert_or_assign(feature, *std::move(values));
    }
    // Before the text, in whose front its class is put.
    if (roles_.label) set_label(i, read(*roles_.label), example);
    if (roles_.texts.size() == 1) {
      const std::size_t k = roles_.texts.front();
      set_text(i, k, read(k), example);
    } else if (!roles_.texts.empty()) {
      std::string text;
      bool is_first = true;
      for (const std::size_t k : roles_.texts) {
        auto values = read(k);
        if (stand_alone_ && !values) continue;
        if (!std::exchange(is_first, false)) text += ' ';
        text += cell_text(i, k, std::move(values));
      }
      if (is_first) fail(i, roles_.texts.front(), "is missing");
      example.set(feature::kText, std::move(text));
    }
    return example;
  }

 private:
  static bool is_of_kept(std::string_view feature) { return feature.starts_with(feature::kColumn); }
  static Feature to_float32(const Feature& doubles);
  [[noreturn]] void fail(std::size_t i, std::size_t k, const std::string& why) const;
  void set_text(std::size_t i, std::size_t k, std::optional<Feature> cell, Example& example) const;
  std::string cell_text(std::size_t i, std::size_t k, std::optional<Feature> cell) const;
  void set_label(std::size_t i, const std::optional<Feature>& cell, Example& example) const;
  const std::string& class_of(std::size_t i, std::int64_t label) const;

  std::string name_;
  bool unlabelled_ = false;
  bool stand_alone_ = false;
  Roles roles_;  // of the columns in used_, by their places there
  std::vector<std::size_t> used_;
  std::vector<TypedColumn> columns_;  // those in used_
  std::vector<bool> kept_;            // of those
  std::optional<std::size_t> label_;  // of all columns
  std::vector<std::string> classes_;
  std::vector<std::int64_t> numbers_;  // of classes_, where labels are numbers, rising
};

}  // namespace sullae::data
