#include "sullae/data/example.h"

#include <algorithm>
#include <stdexcept>

namespace sullae::data {
namespace {

template <class Kind>
const typename Kind::value_type* only_value(const Example& example, std::string_view name) {
  const auto found = example.features.find(name);
  if (found == example.features.end()) return nullptr;
  const auto* const values = std::get_if<Kind>(&found->second);
  return values != nullptr && values->size() == 1 ? values->data() : nullptr;
}

}  // namespace

// Of a few, one after the other: most differ in their size.
Features::const_iterator Features::find(std::string_view name) const {
  constexpr std::size_t kFew = 8;
  if (size() <= kFew) return std::ranges::find(entries_, name, &Entry::first);
  const auto found = std::ranges::lower_bound(entries_, name, {}, &Entry::first);
  return found != end() && found->first == name ? found : end();
}

const Feature& Features::at(std::string_view name) const {
  const auto found = find(name);
  if (found == end())
    throw std::out_of_range("there is no feature '" + std::string(name) + "' in this sample");
  return found->second;
}

Feature& Features::operator[](std::string_view name) {
  // A text, its class and its label: as many as most samples have.
  if (entries_.capacity() == 0) entries_.reserve(3);
  // Of most samples the next one is behind all others.
  auto place = entries_.end();
  if (!empty() && name <= entries_.back().first) {
    place = std::ranges::lower_bound(entries_, name, {}, &Entry::first);
    if (place->first == name) return place->second;
  }
  return entries_.emplace(place, std::string(name), Feature())->second;
}

bool Features::erase(std::string_view name) {
  const auto found = find(name);
  if (found == end()) return false;
  entries_.erase(found);
  return true;
}

const std::string* Example::bytes(std::string_view name) const {
  return only_value<Values<std::string>>(*this, name);
}

const std::int64_t* Example::integer(std::string_view name) const {
  return only_value<Values<std::int64_t>>(*this, name);
}

const std::int64_t* Example::label() const {
  const auto* const of_image = integer(feature::kLabel);
  return of_image != nullptr ? of_image : integer(feature::kTextLabel);
}

void Example::set(std::string_view name, std::string bytes) {
  features.insert_or_assign(name, Values<std::string>(std::move(bytes)));
}

void Example::set(std::string_view name, std::int64_t value) {
  features.insert_or_assign(name, Values<std::int64_t>(value));
}

}  // namespace sullae::data
