#include "data/table/typed_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <set>
#include <unordered_set>

#include "base/utf8.h"
#include "data/table/labels.h"

namespace sullae::data {
namespace {

using Integers = Values<std::int64_t>;

}  // namespace

std::string text_of(const Feature& feature) {
  std::string text;
  std::visit(
      [&](const auto& values) {
        for (std::size_t i = 0; i < values.size(); ++i) {
          if (i > 0) text += ' ';
          fmt::format_to(std::back_inserter(text), "{}", values[i]);
        }
      },
      feature);
  return text;
}

void TypedTable::choose(const std::vector<TypedColumn>& columns, const DatasetOptions& options) {
  unlabelled_ = options.unlabelled;
  stand_alone_ = options.stand_alone;
  roles_ = choose_roles(columns, options, name_);
  label_ = roles_.label;
  used_ = roles_.texts;
  for (const auto& [feature, column] : roles_.features) used_.push_back(column);
  if (label_) used_.push_back(*label_);
  std::ranges::sort(used_);
  used_.erase(std::unique(used_.begin(), used_.end()), used_.end());
  for (const std::size_t column : used_) columns_.push_back(columns[column]);
  const auto place_of = [&](std::size_t column) {
    return static_cast<std::size_t>(std::ranges::find(used_, column) - used_.begin());
  };
  for (auto& column : roles_.texts) column = place_of(column);
  kept_.resize(used_.size());
  for (auto& [name, column] : roles_.features) {
    column = place_of(column);
    if (is_of_kept(name)) kept_[column] = true;
  }
  if (roles_.label) roles_.label = place_of(*roles_.label);
}

Feature TypedTable::to_float32(const Feature& doubles) {
  Values<float> reals;
  for (const double value : std::get<Values<double>>(doubles))
    reals.push_back(static_cast<float>(value));
  return reals;
}

std::vector<FeatureType> TypedTable::feature_types() const {
  std::vector<FeatureType> types;
  for (const auto& [name, k] : roles_.features) {
    const TypedColumn& column = columns_[k];
    auto kind = column.is_binary ? FeatureType::Kind::bytes : FeatureType::Kind::text;
    if (column.kind == FeatureKind::integer) kind = FeatureType::Kind::integer;
    if (column.kind == FeatureKind::real)
      kind = column.is_double && is_of_kept(name) ? FeatureType::Kind::real64
                                                  : FeatureType::Kind::real;
    types.push_back(
        {.name = name, .kind = kind, .dimensions = column.is_list ? std::size_t{1} : 0});
  }
  return types;
}

void TypedTable::find_classes(std::vector<std::string> named,
                              const std::function<void(const Act&)>& for_each_label) {
  classes_ = std::move(named);
  if (!roles_.label) return;
  const bool are_numbers = columns_[*roles_.label].kind == FeatureKind::integer;
  if (are_numbers && !classes_.empty()) {
    numbers_.resize(classes_.size());
    std::iota(numbers_.begin(), numbers_.end(), 0);
  }
  if (!classes_.empty()) return;
  std::set<std::int64_t> numbers;
  std::unordered_set<std::string> texts;
  for_each_label([&](const Feature& feature) {
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

void TypedTable::fail(std::size_t i, std::size_t k, const std::string& why) const {
  throw DamagedRecord(fmt::format("{}, column '{}': {}", place(i), columns_[k].name, why));
}

// Empty for null: Spark writes an empty text so. What says that it is a string is UTF-8 by its
// format's word.
std::string TypedTable::cell_text(std::size_t i, std::size_t k, std::optional<Feature> cell) const {
  if (!cell) return "";
  if (auto* const texts = std::get_if<Values<std::string>>(&*cell);
      texts != nullptr && texts->size() == 1 && columns_[k].is_string)
    return std::move(texts->front());
  std::string text = text_of(*cell);
  if (const auto at = find_invalid_utf8(text); at != std::string::npos)
    fail(i, k,
         fmt::format("byte {} (0x{:02x}) is not UTF-8", at + 1,
                     static_cast<unsigned char>(text[at])));
  return text;
}

// What a cell holds is taken as it is, where it is one text.
void TypedTable::set_text(std::size_t i, std::size_t k, std::optional<Feature> cell,
                          Example& example) const {
  if (stand_alone_ && !cell) fail(i, k, "is missing");
  const auto* const texts = cell ? std::get_if<Values<std::string>>(&*cell) : nullptr;
  if (texts != nullptr && texts->size() == 1 && columns_[k].is_string)
    example.features.insert_or_assign(feature::kText, *std::move(cell));
  else
    example.set(feature::kText, cell_text(i, k, std::move(cell)));
}

void TypedTable::set_label(std::size_t i, const std::optional<Feature>& cell,
                           Example& example) const {
  const auto* const numbers = cell ? std::get_if<Integers>(&*cell) : nullptr;
  if (numbers != nullptr && !numbers->empty() && !numbers_.empty()) {
    example.set(feature::kClass, class_of(i, numbers->front()));
    return;
  }
  std::string name = cell ? text_of(*cell) : std::string();
  if (name.empty() && unlabelled_) return;
  if (name.empty()) throw DamagedRecord(fmt::format("{}: its label is empty", place(i)));
  example.set(feature::kClass, std::move(name));
}

const std::string& TypedTable::class_of(std::size_t i, std::int64_t label) const {
  const auto found = std::ranges::lower_bound(numbers_, label);
  if (found == numbers_.end() || *found != label)
    throw DamagedRecord(fmt::format("{}: its label is {}, expected 0 to {}, as classes.txt has",
                                    place(i), label, classes_.size() - 1));
  return classes_[static_cast<std::size_t>(found - numbers_.begin())];
}

}  // namespace sullae::data
