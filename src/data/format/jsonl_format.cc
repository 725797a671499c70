// JSON lines (jsonlines.org): an object a line, as Spark and `sullae predict` write them.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <list>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/number.h"
#include "base/split.h"
#include "data/format/format.h"
#include "data/format/json_record.h"
#include "data/table/file_rows.h"
#include "data/table/typed_table.h"

namespace sullae::data {
namespace {

using json = nlohmann::ordered_json;
using Path = std::vector<std::string>;

// What values of a path have been so far.
struct Seen {
  Path path;
  std::optional<FeatureKind> kind;  // none of nulls and empty lists
  bool is_list = false;
};

// In their order.
class SeenColumns {
 public:
  const std::list<Seen>& all() const { return all_; }
  void append(Path path) { insert(all_.end(), std::move(path)); }
  // Of a member of `object`. Writers leave nulls out: a row that has more members than those before
  // says where their places are.
  Seen& of(const Path& path, const json& object) {
    const auto found = places_.find(path);
    if (found != places_.end()) return *found->second;
    auto before = all_.end();
    Path sibling = path;
    for (auto next = std::next(object.find(path.back())); next != object.end(); ++next) {
      sibling.back() = next.key();
      const auto known = places_.find(sibling);
      if (known == places_.end()) continue;
      before = known->second;
      break;
    }
    return insert(before, path);
  }

 private:
  Seen& insert(std::list<Seen>::iterator before, Path path) {
    const auto place = all_.insert(before, Seen{.path = std::move(path), .kind = {}});
    places_.emplace(place->path, place);
    return *place;
  }

  std::list<Seen> all_;
  std::map<Path, std::list<Seen>::iterator> places_;
};

std::optional<FeatureKind> kind_of(const json& value) {
  if (value.is_string()) return FeatureKind::bytes;
  if (value.is_number_float() || value.is_binary()) return FeatureKind::real;
  if (value.is_number() || value.is_boolean()) return FeatureKind::integer;
  return std::nullopt;
}

// Of a list, nested or not, all values; of another value itself.
template <class Act>
void for_each_value(const json& value, const Act& act) {
  if (!value.is_array()) return act(value);
  for (const json& inner : value) for_each_value(inner, act);
}

// The names, in their order, and the types of all values. No value of a name makes it another
// one's.
void append_shape(const json& value, std::string& shape) {
  if (value.is_object()) {
    for (const auto& [key, inner] : value.items()) {
      shape += fmt::format("{}:{}", key.size(), key);
      append_shape(inner, shape);
    }
    shape += '}';
    return;
  }
  std::set<char> kinds;
  for_each_value(value, [&](const json& one) {
    const auto kind = kind_of(one);
    constexpr std::string_view kKinds = "trw";
    kinds.insert(kind ? kKinds[static_cast<std::size_t>(*kind)] : one.is_null() ? 'n' : 'o');
  });
  shape += value.is_array() ? '[' : '=';
  shape.append(kinds.begin(), kinds.end());
  shape += ';';
}

std::string digits_of(const json& large) {
  return {large.get_binary().begin(), large.get_binary().end()};
}

// As it was written, where no int64 holds it.
std::optional<std::string> beyond_int64(const json& value) {
  if (value.is_binary()) return digits_of(value);
  const bool is_beyond = value.is_number_unsigned() &&
                         value.get<std::uint64_t>() >
                             static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  return is_beyond ? std::optional(value.dump()) : std::nullopt;
}

// Columns that are asked for by their names.
std::vector<std::string> asked_for(const DatasetOptions& options) {
  auto names = split(options.text_columns, ',');
  names.push_back(options.label_column);
  names.insert(names.end(), options.kept_columns.begin(), options.kept_columns.end());
  std::erase_if(names, [](const std::string& name) {
    return name.empty() || number_in<std::size_t>(name).has_value();
  });
  return names;
}

class JsonLinesDataset final : public TypedTable {
 public:
  /// `lacking` as of Opening.
  JsonLinesDataset(std::shared_ptr<const Records> records, const DatasetOptions& options,
                   std::vector<std::string> classes, std::set<std::string>* lacking = nullptr)
      : TypedTable(records->name()), records_(std::move(records)) {
    SeenColumns seen;
    // Those that stand alone are of one shape.
    const std::size_t looked_at = options.stand_alone ? 1 : 1000;
    for (std::size_t i = 0; i < std::min(looked_at, records_->size()); ++i) {
      try {
        look_at(parse(i), {}, i, seen);
      } catch (const DamagedRecord&) {
        // Who reads it is told.
      }
    }
    if (lacking != nullptr) add_lacking(asked_for(options), seen, *lacking);
    std::vector<TypedColumn> columns;
    std::vector<Path> paths;
    for (const Seen& one : seen.all()) {
      columns.push_back(column_of(one));
      paths.push_back(one.path);
    }
    choose(columns, options);
    for (const std::size_t column : used()) {
      paths_.push_back(paths[column]);
      kinds_.push_back(columns[column].kind.value());
    }
    // Nor do they have classes in common.
    if (options.stand_alone) return;
    find_classes(std::move(classes), [&](const Act& act) {
      const auto place = std::ranges::find(used(), *label()) - used().begin();
      for (std::size_t i = 0; i < records_->size(); ++i) {
        try {
          if (const auto cell = cell_of(parse(i), static_cast<std::size_t>(place))) act(*cell);
        } catch (const DamagedRecord&) {
          // Who reads it is told.
        }
      }
    });
  }

  std::size_t size() const override { return records_->size(); }
  std::string place(std::size_t i) const override { return records_->place(i); }
  Example read(std::size_t i) const override {
    const json row = parse(i);
    return make_example(i, [&](std::size_t k) { return cell_of(row, k); });
  }

 private:
  json parse(std::size_t i) const {
    try {
      return parse_json_record(records_->read(i));
    } catch (const DamagedRecord& error) {
      throw DamagedRecord(fmt::format("{}: {}", place(i), error.what()));
    }
  }

  // As if this file had them, and nulls in all rows.
  static void add_lacking(const std::vector<std::string>& names, SeenColumns& seen,
                          std::set<std::string>& lacking) {
    for (const auto& name : names) {
      const bool is_there = std::ranges::any_of(
          seen.all(), [&](const Seen& one) { return name_of(one.path) == name; });
      if (!is_there && lacking.insert(name).second) seen.append(split(name, '.'));
    }
  }

  void look_at(const json& object, const Path& above, std::size_t i, SeenColumns& seen) const {
    for (const auto& [key, value] : object.items()) {
      Path path = above;
      path.push_back(key);
      if (value.is_object()) {
        look_at(value, path, i, seen);
        continue;
      }
      Seen* const found = &seen.of(path, object);
      found->is_list = found->is_list || value.is_array();
      for_each_value(value, [&](const json& one) {
        const auto kind = kind_of(one);
        if (!kind || found->kind == kind) return;
        const bool are_numbers = kind != FeatureKind::bytes && found->kind != FeatureKind::bytes;
        if (found->kind && !are_numbers)
          throw InputError(
              fmt::format("{}: '{}' is a text here and a number before, or the other way: "
                          "expected one of both",
                          place(i), name_of(path)));
        found->kind = found->kind ? FeatureKind::real : kind;
      });
    }
  }

  static std::string name_of(const Path& path) { return fmt::format("{}", fmt::join(path, ".")); }

  static TypedColumn column_of(const Seen& seen) {
    // Of nulls alone nothing is known.
    const FeatureKind kind = seen.kind.value_or(FeatureKind::bytes);
    constexpr const char* kNames[] = {"string", "number", "whole number"};
    const char* const type = kNames[static_cast<std::size_t>(kind)];
    return {.name = name_of(seen.path),
            .kind = kind,
            .is_string = kind == FeatureKind::bytes && !seen.is_list,
            .is_list = seen.is_list,
            .is_double = kind == FeatureKind::real,
            .type = seen.is_list ? fmt::format("list of {}s", type) : type};
  }

  std::optional<Feature> cell_of(const json& row, std::size_t k) const {
    const json* value = &row;
    for (const auto& key : paths_[k]) {
      if (!value->is_object()) return std::nullopt;
      const auto found = value->find(key);
      if (found == value->end()) return std::nullopt;
      value = &*found;
    }
    if (value->is_null()) return std::nullopt;
    if (kinds_[k] == FeatureKind::bytes) return values_of<std::string>(*value, k);
    if (kinds_[k] == FeatureKind::real && is_kept(k)) return values_of<double>(*value, k);
    if (kinds_[k] == FeatureKind::real) return values_of<float>(*value, k);
    return values_of<std::int64_t>(*value, k);
  }

  template <class Value>
  Values<Value> values_of(const json& value, std::size_t k) const {
    Values<Value> values;
    for_each_value(value, [&](const json& one) {
      const auto kind = kind_of(one);
      const bool fits =
          kind == kinds_[k] || (kinds_[k] == FeatureKind::real && kind == FeatureKind::integer);
      if (!fits)
        throw DamagedRecord(fmt::format("has a JSON {}, expected what is in the first rows",
                                        one.is_binary() ? "number" : one.type_name()));
      if (one.is_boolean()) {
        if constexpr (std::is_same_v<Value, std::string>)
          values.push_back("");
        else
          values.push_back(static_cast<Value>(one.get<bool>()));
      } else if constexpr (std::is_same_v<Value, double>) {
        constexpr std::int64_t kMost = std::int64_t{1} << 53;
        const auto beyond = beyond_int64(one);
        const auto whole = one.is_number_integer() ? one.get<std::int64_t>() : 0;
        if (beyond || whole > kMost || whole < -kMost)
          throw DamagedRecord(fmt::format(
              "has {}, in a column of numbers with fractions, which hold whole numbers up to {}: "
              "expected a column of whole numbers, or of texts",
              beyond.value_or(one.dump()), kMost));
        values.push_back(one.get<double>());
      } else if constexpr (std::is_same_v<Value, float>) {
        values.push_back(
            static_cast<float>(one.is_binary() ? std::stod(digits_of(one)) : one.get<double>()));
      } else {
        if (const auto beyond = beyond_int64(one); beyond && std::is_same_v<Value, std::int64_t>)
          throw DamagedRecord(fmt::format("{} is larger than an int64", *beyond));
        values.push_back(one.get<Value>());
      }
    });
    return values;
  }

  std::shared_ptr<const Records> records_;
  std::vector<Path> paths_;  // of used()
  std::vector<FeatureKind> kinds_;
};

}  // namespace

Format jsonl_format() {
  return {.name = "jsonl",
          .is_table = true,
          .recognises =
              [](const std::filesystem::path& path, std::string_view start) {
                return has_extension(path, {".jsonl", ".ndjson"}) ||
                       (has_extension(path, {".json"}) && start.starts_with('{'));
              },
          .open = [](const std::filesystem::path& path, const Opening& opening) -> DatasetPtr {
            auto file = ByteFile::open(path);
            auto rows = index_rows(*file, {.separator = '\0', .quotes = false}).rows;
            return std::make_shared<JsonLinesDataset>(
                std::make_shared<FileRows>(std::move(file), std::move(rows)), opening,
                classes_beside(path), opening.lacking);
          },
          .open_records = [](std::shared_ptr<const Records> records,
                             const DatasetOptions& options) -> DatasetPtr {
            return std::make_shared<JsonLinesDataset>(std::move(records), options,
                                                      std::vector<std::string>());
          },
          .shape = [](const std::string& record, const DatasetOptions&) -> std::string {
            try {
              std::string shape;
              append_shape(parse_json_record(record), shape);
              return shape;
            } catch (const DamagedRecord&) {
              return "damaged";
            }
          }};
}

}  // namespace sullae::data
