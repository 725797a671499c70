#pragma once

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <iterator>
#include <utility>
#include <variant>
#include <vector>

namespace sullae::data {

/// A list of values, used as a std::vector, of which one alone has no memory of its own: samples
/// are made by the million, and most of their features have one value. Iterators hold until it is
/// changed or moved. A value; threads may read one together.
template <class T>
class Values {
 public:
  using value_type = T;
  using iterator = T*;
  using const_iterator = const T*;

  Values() = default;
  Values(std::initializer_list<T> values) : Values(values.begin(), values.end()) {}
  Values(std::vector<T> values) : held_(std::move(values)) {}
  /// One.
  explicit Values(T only) : held_(std::in_place_type<T>, std::move(only)) {}
  template <std::forward_iterator Iterator>
  Values(Iterator begin, Iterator end) {
    reserve(static_cast<std::size_t>(std::distance(begin, end)));
    for (; begin != end; ++begin) push_back(*begin);
  }

  std::size_t size() const { return is_one() ? 1 : many().size(); }
  bool empty() const { return size() == 0; }
  const T* data() const { return is_one() ? std::get_if<T>(&held_) : many().data(); }
  T* data() { return is_one() ? std::get_if<T>(&held_) : many().data(); }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size(); }
  T* begin() { return data(); }
  T* end() { return data() + size(); }
  const T& front() const { return *data(); }
  T& front() { return *data(); }
  const T& operator[](std::size_t i) const { return data()[i]; }
  T& operator[](std::size_t i) { return data()[i]; }

  void reserve(std::size_t count) {
    if (count > 1) as_many().reserve(count);
  }
  void push_back(T value) {
    if (!is_one() && many().capacity() == 0) {
      held_.template emplace<T>(std::move(value));
    } else {
      as_many().push_back(std::move(value));
    }
  }

  bool operator==(const Values& other) const {
    return std::equal(begin(), end(), other.begin(), other.end());
  }

 private:
  bool is_one() const { return std::holds_alternative<T>(held_); }
  const std::vector<T>& many() const { return *std::get_if<std::vector<T>>(&held_); }
  std::vector<T>& many() { return *std::get_if<std::vector<T>>(&held_); }
  std::vector<T>& as_many() {
    if (is_one()) {
      std::vector<T> values;
      values.push_back(std::move(front()));
      held_.template emplace<std::vector<T>>(std::move(values));
    }
    return many();
  }

  std::variant<std::vector<T>, T> held_;
};

}  // namespace sullae::data
