#include "sullae/data/example.h"

namespace sullae::data {
namespace {

template <class Values>
const typename Values::value_type* only_value(const Example& example, std::string_view name) {
  const auto found = example.features.find(name);
  if (found == example.features.end()) return nullptr;
  const auto* const values = std::get_if<Values>(&found->second);
  return values != nullptr && values->size() == 1 ? values->data() : nullptr;
}

}  // namespace

const std::string* Example::bytes(std::string_view name) const {
  return only_value<std::vector<std::string>>(*this, name);
}

const std::int64_t* Example::integer(std::string_view name) const {
  return only_value<std::vector<std::int64_t>>(*this, name);
}

const std::int64_t* Example::label() const {
  const auto* const of_image = integer(feature::kLabel);
  return of_image != nullptr ? of_image : integer(feature::kTextLabel);
}

void Example::set(std::string_view name, std::string bytes) {
  std::vector<std::string> values;
  values.push_back(std::move(bytes));
  features.insert_or_assign(std::string(name), std::move(values));
}

void Example::set(std::string_view name, std::int64_t value) {
  features.insert_or_assign(std::string(name), std::vector<std::int64_t>{value});
}

}  // namespace sullae::data
