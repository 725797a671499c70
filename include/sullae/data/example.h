// A sample as it is stored: named features, as in TensorFlow's tf.train.Example.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "sullae/data/values.h"

namespace sullae::data {

/// The names that readers give to features and that recipes look for. Those of images are what
/// TensorFlow's ImageNet scripts write.
namespace feature {
inline constexpr std::string_view kImage = "image/encoded";  ///< bytes, a JPEG file
inline constexpr std::string_view kPixels = "image/raw";     ///< bytes, [rows, columns, channels]
inline constexpr std::string_view kRows = "image/height";    ///< int64, of kPixels
inline constexpr std::string_view kColumns = "image/width";  ///< int64, of kPixels
inline constexpr std::string_view kFileName = "image/filename";  ///< bytes
inline constexpr std::string_view kLabel = "image/class/label";  ///< int64, from 0
inline constexpr std::string_view kClass = "image/class/text";   ///< bytes, the label's name
inline constexpr std::string_view kText = "text";                ///< bytes, UTF-8
inline constexpr std::string_view kTextLabel = "label";          ///< int64, from 0
inline constexpr std::string_view kColumn =
    "column/";  ///< begins the names of a table's kept columns

/// Whether it says of which class a sample is.
constexpr bool is_label(std::string_view name) {
  return name == kLabel || name == kClass || name == kTextLabel;
}
}  // namespace feature

/// The values of a feature: of one of the three kinds that tf.train.Feature has, or, of a table's
/// kept column, double.
using Feature =
    std::variant<Values<std::string>, Values<float>, Values<std::int64_t>, Values<double>>;

/// What a feature is in all samples that have it.
struct FeatureType {
  enum class Kind { text, bytes, real, real64, integer };  ///< a text is UTF-8
  std::string name;
  Kind kind = Kind::text;
  /// 0: one value; 1: a list of values; 2: a list of lists …
  std::size_t dimensions = 0;

  bool operator==(const FeatureType&) const = default;
};

/// Features by name, in the order of names: found, set and gone through as in a std::map, and one
/// block of memory. Samples are made by the million, and have a few features each. Threads may read
/// one together.
class Features {
 public:
  using Entry = std::pair<std::string, Feature>;
  using const_iterator = std::vector<Entry>::const_iterator;

  const_iterator begin() const { return entries_.begin(); }
  const_iterator end() const { return entries_.end(); }
  std::size_t size() const { return entries_.size(); }
  bool empty() const { return entries_.empty(); }
  /// end() where there is none.
  const_iterator find(std::string_view name) const;
  bool contains(std::string_view name) const { return find(name) != end(); }
  /// Throws std::out_of_range where there is none.
  const Feature& at(std::string_view name) const;
  /// A new one is of bytes, and has no values.
  Feature& operator[](std::string_view name);
  template <class Values>
  void insert_or_assign(std::string_view name, Values&& values) {
    (*this)[name] = std::forward<Values>(values);
  }
  /// Whether there was one.
  bool erase(std::string_view name);

  bool operator==(const Features&) const = default;

 private:
  std::vector<Entry> entries_;  // sorted by name
};

/// A value; threads may read one together.
class Example {
 public:
  Features features;

  /// The only value of a feature, or null where there is no such feature, or it is of another kind
  /// or has none or several values.
  const std::string* bytes(std::string_view name) const;
  const std::int64_t* integer(std::string_view name) const;
  /// feature::kLabel or kTextLabel, whichever there is; null where there is neither.
  const std::int64_t* label() const;

  void set(std::string_view name, std::string bytes);
  void set(std::string_view name, std::int64_t value);

  bool operator==(const Example&) const = default;
};

/// The serialised tf.train.Example (tensorflow/core/example/example.proto).
std::string serialize(const Example& example);
/// Throws DamagedRecord for bytes that are none.
Example parse_example(std::string_view bytes);

}  // namespace sullae::data
