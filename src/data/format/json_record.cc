#include "data/format/json_record.h"

#include <fmt/format.h>

#include <cstdint>
#include <vector>

#include "sullae/data/dataset.h"

namespace sullae::data {
namespace {

using json = nlohmann::ordered_json;

// Whoever goes through what is nested calls itself: a line of brackets alone would be deeper than
// the stack.
constexpr std::size_t kDeepest = 64;

// nlohmann's own parser makes 1.2e22 of a number of 23 digits, and of its neighbours.
class Builder final : public json::json_sax_t {
 public:
  json& root() { return root_; }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(std::int64_t value) override { return add(value); }
  bool number_unsigned(std::uint64_t value) override { return add(value); }
  bool number_float(double value, const std::string& digits) override {
    if (digits.find_first_of(".eE") != std::string::npos) return add(value);
    return add(json::binary({digits.begin(), digits.end()}));
  }
  bool string(std::string& value) override { return add(std::move(value)); }
  bool binary(json::binary_t&) override { return false; }  // JSON has none
  bool start_object(std::size_t) override { return open(json::object()); }
  bool key(std::string& name) override {
    name_ = std::move(name);
    return true;
  }
  bool end_object() override { return close(); }
  bool start_array(std::size_t) override { return open(json::array()); }
  bool end_array() override { return close(); }
  bool parse_error(std::size_t, const std::string&, const json::exception& error) override {
    throw DamagedRecord(fmt::format("is no JSON: {}", error.what()));
  }

 private:
  json& place() {
    if (open_.empty()) return root_;
    json& parent = *open_.back();
    return parent.is_array() ? parent.emplace_back() : parent[name_];
  }
  template <class Value>
  bool add(Value&& value) {
    place() = std::forward<Value>(value);
    return true;
  }
  bool open(json&& value) {
    if (open_.size() == kDeepest)
      throw DamagedRecord(fmt::format("is nested more than {} deep", kDeepest));
    json& added = place();
    added = std::move(value);
    open_.push_back(&added);  // it stays where it is until it is closed
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  json root_;
  std::vector<json*> open_;
  std::string name_;
};

}  // namespace

json parse_json_record(const std::string& record) {
  Builder builder;
  json::sax_parse(record, &builder);
  json& row = builder.root();
  if (row.is_object()) return std::move(row);
  throw DamagedRecord(fmt::format("is a JSON {}, expected an object", row.type_name()));
}

}  // namespace sullae::data
