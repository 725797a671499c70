#include "data/columnar/feature_column.h"

#include <arrow/array.h>
#include <arrow/record_batch.h>
#include <arrow/scalar.h>
#include <arrow/type.h>
#include <arrow/util/float16.h>
#include <fmt/format.h>

#include <cmath>
#include <functional>
#include <limits>
#include <utility>

#include "data/columnar/byte_source.h"

namespace sullae::data {
namespace {

using ArrayPtr = std::shared_ptr<arrow::Array>;

// The values of a range of an array, none of which is a list.
class CellValues {
 public:
  virtual ~CellValues() = default;
  virtual Feature read(std::int64_t begin, std::int64_t end) const = 0;
};

void refuse_null() { throw DamagedRecord("a list holds a null"); }

// `Read` is what a Value is made of.
template <class Array, class Value, class Read = Value>
class PlainValues final : public CellValues {
 public:
  using ReadOne = Read (*)(const Array&, std::int64_t);
  PlainValues(const ArrayPtr& array, ReadOne one)
      : array_(std::static_pointer_cast<Array>(array)), read_(one) {}
  Feature read(std::int64_t begin, std::int64_t end) const override {
    Values<Value> values;
    values.reserve(static_cast<std::size_t>(end - begin));
    for (std::int64_t i = begin; i < end; ++i) {
      if (array_->IsNull(i)) refuse_null();
      values.push_back(Value(read_(*array_, i)));
    }
    return values;
  }

 private:
  std::shared_ptr<Array> array_;
  ReadOne read_;
};

template <class Array>
std::unique_ptr<CellValues> integers(const ArrayPtr& array) {
  return std::make_unique<PlainValues<Array, std::int64_t>>(
      array, +[](const Array& of, std::int64_t i) -> std::int64_t {
        if constexpr (std::is_same_v<Array, arrow::UInt64Array>) {
          if (of.Value(i) > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
            throw DamagedRecord(fmt::format("{} is larger than an int64", of.Value(i)));
        }
        return static_cast<std::int64_t>(of.Value(i));
      });
}

template <class Array>
std::unique_ptr<CellValues> reals(const ArrayPtr& array) {
  return std::make_unique<PlainValues<Array, float>>(
      array, +[](const Array& of, std::int64_t i) -> float {
        if constexpr (std::is_same_v<Array, arrow::HalfFloatArray>) {
          return arrow::util::Float16::FromBits(of.Value(i)).ToFloat();
        } else {
          const auto value = static_cast<float>(of.Value(i));
          if (std::isinf(value) && !std::isinf(of.Value(i)))
            throw DamagedRecord(fmt::format("{} is larger than a float32", of.Value(i)));
          return value;
        }
      });
}

std::unique_ptr<CellValues> doubles(const ArrayPtr& array) {
  return std::make_unique<PlainValues<arrow::DoubleArray, double>>(
      array, +[](const arrow::DoubleArray& of, std::int64_t i) { return of.Value(i); });
}

template <class Array>
std::unique_ptr<CellValues> bytes(const ArrayPtr& array) {
  return std::make_unique<PlainValues<Array, std::string, std::string_view>>(
      array, +[](const Array& of, std::int64_t i) { return std::string_view(of.GetView(i)); });
}

std::string as_text(const arrow::Array& array, std::int64_t i) {
  return value_of(array.GetScalar(i))->ToString();
}

class DictionaryValues final : public CellValues {
 public:
  DictionaryValues(const ArrayPtr& array, std::unique_ptr<CellValues> dictionary)
      : array_(std::static_pointer_cast<arrow::DictionaryArray>(array)),
        dictionary_(std::move(dictionary)) {}
  Feature read(std::int64_t begin, std::int64_t end) const override {
    Feature all = dictionary_->read(0, 0);
    for (std::int64_t i = begin; i < end; ++i) {
      if (array_->IsNull(i)) refuse_null();
      const std::int64_t place = array_->GetValueIndex(i);
      if (place < 0 || place >= array_->dictionary()->length())
        throw DamagedRecord(fmt::format("its value is number {} of a dictionary of {}", place,
                                        array_->dictionary()->length()));
      std::visit(
          [&](auto& values) {
            values.push_back(
                std::move(std::get<std::decay_t<decltype(values)>>(one(place)).front()));
          },
          all);
    }
    return all;
  }

 private:
  Feature one(std::int64_t place) const { return dictionary_->read(place, place + 1); }

  std::shared_ptr<arrow::DictionaryArray> array_;
  std::unique_ptr<CellValues> dictionary_;
};

std::unique_ptr<CellValues> make_values(const ArrayPtr& array, bool is_kept) {
  switch (array->type_id()) {
    case arrow::Type::BOOL:
      return integers<arrow::BooleanArray>(array);
    case arrow::Type::INT8:
      return integers<arrow::Int8Array>(array);
    case arrow::Type::INT16:
      return integers<arrow::Int16Array>(array);
    case arrow::Type::INT32:
      return integers<arrow::Int32Array>(array);
    case arrow::Type::INT64:
      return integers<arrow::Int64Array>(array);
    case arrow::Type::UINT8:
      return integers<arrow::UInt8Array>(array);
    case arrow::Type::UINT16:
      return integers<arrow::UInt16Array>(array);
    case arrow::Type::UINT32:
      return integers<arrow::UInt32Array>(array);
    case arrow::Type::UINT64:
      return integers<arrow::UInt64Array>(array);
    case arrow::Type::HALF_FLOAT:
      return reals<arrow::HalfFloatArray>(array);
    case arrow::Type::FLOAT:
      return reals<arrow::FloatArray>(array);
    case arrow::Type::DOUBLE:
      return is_kept ? doubles(array) : reals<arrow::DoubleArray>(array);
    case arrow::Type::STRING:
    case arrow::Type::BINARY:
      return bytes<arrow::BinaryArray>(array);
    case arrow::Type::LARGE_STRING:
    case arrow::Type::LARGE_BINARY:
      return bytes<arrow::LargeBinaryArray>(array);
    case arrow::Type::STRING_VIEW:
    case arrow::Type::BINARY_VIEW:
      return bytes<arrow::BinaryViewArray>(array);
    case arrow::Type::FIXED_SIZE_BINARY:
      return bytes<arrow::FixedSizeBinaryArray>(array);
    case arrow::Type::DICTIONARY:
      return std::make_unique<DictionaryValues>(
          array,
          make_values(static_cast<const arrow::DictionaryArray&>(*array).dictionary(), is_kept));
    default:
      return std::make_unique<PlainValues<arrow::Array, std::string>>(array, &as_text);
  }
}

// Where a list's values are in the array below it.
using Range = std::function<std::pair<std::int64_t, std::int64_t>(std::int64_t, std::int64_t)>;

template <class List>
Range range_in(const ArrayPtr& array) {
  return [list = std::static_pointer_cast<List>(array)](std::int64_t begin, std::int64_t end) {
    if (begin == end) return std::pair<std::int64_t, std::int64_t>(0, 0);
    return std::pair<std::int64_t, std::int64_t>(
        list->value_offset(begin), list->value_offset(end - 1) + list->value_length(end - 1));
  };
}

bool holds_lists(arrow::Type::type type) {
  return type == arrow::Type::LIST || type == arrow::Type::LARGE_LIST ||
         type == arrow::Type::FIXED_SIZE_LIST;
}

class ColumnOfFeatures final : public FeatureColumn {
 public:
  ColumnOfFeatures(const ArrayPtr& array, bool is_kept) : array_(array) {
    ArrayPtr below = array;
    while (holds_lists(below->type_id())) {
      lists_.push_back(below);
      if (below->type_id() == arrow::Type::LIST) {
        ranges_.push_back(range_in<arrow::ListArray>(below));
        below = static_cast<const arrow::ListArray&>(*below).values();
      } else if (below->type_id() == arrow::Type::LARGE_LIST) {
        ranges_.push_back(range_in<arrow::LargeListArray>(below));
        below = static_cast<const arrow::LargeListArray&>(*below).values();
      } else {
        ranges_.push_back(range_in<arrow::FixedSizeListArray>(below));
        below = static_cast<const arrow::FixedSizeListArray&>(*below).values();
      }
    }
    values_ = make_values(below, is_kept);
  }

  std::optional<Feature> at(std::int64_t row) const override {
    if (array_->IsNull(row)) return std::nullopt;
    std::pair<std::int64_t, std::int64_t> range(row, row + 1);
    for (std::size_t depth = 0; depth < ranges_.size(); ++depth) {
      for (std::int64_t i = range.first; depth > 0 && i < range.second; ++i) {
        if (lists_[depth]->IsNull(i)) refuse_null();
      }
      range = ranges_[depth](range.first, range.second);
    }
    return values_->read(range.first, range.second);
  }

  std::optional<Feature> all() const override {
    if (!lists_.empty() || array_->null_count() > 0) return std::nullopt;
    return values_->read(0, array_->length());
  }

 private:
  ArrayPtr array_;
  std::vector<ArrayPtr> lists_;
  std::vector<Range> ranges_;
  std::unique_ptr<CellValues> values_;
};

void add_leaves(const std::string& name, std::vector<int> path,
                const std::shared_ptr<arrow::DataType>& type, std::vector<Leaf>& leaves) {
  if (type->id() != arrow::Type::STRUCT) {
    for (const Leaf& other : leaves) {
      if (other.name == name) throw DamagedRecord(fmt::format("two columns are called '{}'", name));
    }
    leaves.push_back({.name = name, .path = std::move(path), .type = type});
    return;
  }
  for (int member = 0; member < type->num_fields(); ++member) {
    auto longer = path;
    longer.push_back(member);
    add_leaves(name + '.' + type->field(member)->name(), std::move(longer),
               type->field(member)->type(), leaves);
  }
}

std::optional<FeatureKind> feature_kind(const arrow::DataType& type) {
  switch (type.id()) {
    case arrow::Type::BOOL:
    case arrow::Type::INT8:
    case arrow::Type::INT16:
    case arrow::Type::INT32:
    case arrow::Type::INT64:
    case arrow::Type::UINT8:
    case arrow::Type::UINT16:
    case arrow::Type::UINT32:
    case arrow::Type::UINT64:
      return FeatureKind::integer;
    case arrow::Type::HALF_FLOAT:
    case arrow::Type::FLOAT:
    case arrow::Type::DOUBLE:
      return FeatureKind::real;
    case arrow::Type::STRING:
    case arrow::Type::BINARY:
    case arrow::Type::LARGE_STRING:
    case arrow::Type::LARGE_BINARY:
    case arrow::Type::STRING_VIEW:
    case arrow::Type::BINARY_VIEW:
    case arrow::Type::FIXED_SIZE_BINARY:
    case arrow::Type::DATE32:
    case arrow::Type::DATE64:
    case arrow::Type::TIME32:
    case arrow::Type::TIME64:
    case arrow::Type::TIMESTAMP:
    case arrow::Type::DURATION:
    case arrow::Type::DECIMAL128:
    case arrow::Type::DECIMAL256:
      return FeatureKind::bytes;
    case arrow::Type::DICTIONARY: {
      const auto& values = *static_cast<const arrow::DictionaryType&>(type).value_type();
      if (holds_lists(values.id())) return std::nullopt;
      return feature_kind(values);
    }
    case arrow::Type::LIST:
    case arrow::Type::LARGE_LIST:
    case arrow::Type::FIXED_SIZE_LIST:
      return feature_kind(*type.field(0)->type());
    default:
      return std::nullopt;
  }
}

bool is_text(const arrow::DataType& type) {
  if (type.id() == arrow::Type::DICTIONARY)
    return is_text(*static_cast<const arrow::DictionaryType&>(type).value_type());
  return type.id() == arrow::Type::STRING || type.id() == arrow::Type::LARGE_STRING ||
         type.id() == arrow::Type::STRING_VIEW;
}

// What a cell, or each value of it, is.
const arrow::DataType& value_type(const arrow::DataType& type) {
  if (holds_lists(type.id())) return value_type(*type.field(0)->type());
  if (type.id() == arrow::Type::DICTIONARY)
    return value_type(*static_cast<const arrow::DictionaryType&>(type).value_type());
  return type;
}

bool holds_bytes(const arrow::DataType& type) {
  const auto id = value_type(type).id();
  return id == arrow::Type::BINARY || id == arrow::Type::LARGE_BINARY ||
         id == arrow::Type::BINARY_VIEW || id == arrow::Type::FIXED_SIZE_BINARY;
}

}  // namespace

std::vector<Leaf> leaves_of(const arrow::Schema& schema) {
  std::vector<Leaf> leaves;
  for (int field = 0; field < schema.num_fields(); ++field)
    add_leaves(schema.field(field)->name(), {field}, schema.field(field)->type(), leaves);
  return leaves;
}

TypedColumn describe(const Leaf& leaf) {
  return {.name = leaf.name,
          .kind = feature_kind(*leaf.type),
          .is_string = is_text(*leaf.type),
          .is_binary = holds_bytes(*leaf.type),
          .is_list = holds_lists(leaf.type->id()),
          .is_double = value_type(*leaf.type).id() == arrow::Type::DOUBLE,
          .type = leaf.type->ToString()};
}

std::unique_ptr<FeatureColumn> make_feature_column(const arrow::RecordBatch& batch,
                                                   const std::vector<int>& path, bool is_kept) {
  ArrayPtr array = batch.column(path.front());
  for (std::size_t depth = 1; depth < path.size(); ++depth)
    array = value_of(static_cast<const arrow::StructArray&>(*array).GetFlattenedField(path[depth]));
  return std::make_unique<ColumnOfFeatures>(array, is_kept);
}

}  // namespace sullae::data
