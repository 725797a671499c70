#include "runs/line.h"

#include <charconv>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "runs/record.h"

namespace sullae::runs {
namespace {

using nlohmann::json;

// Members as they come, without a value of JSON's in between.
class Reader final : public nlohmann::json_sax<json> {
 public:
  explicit Reader(Line& line) : line_(line) {}

  bool key(std::string& name) override {
    key_ = std::move(name);
    return true;
  }
  bool number_integer(number_integer_t value) override {
    return line_.take_number(key_, static_cast<double>(value));
  }
  bool number_unsigned(number_unsigned_t value) override {
    return line_.take_number(key_, static_cast<double>(value));
  }
  bool number_float(number_float_t value, const string_t&) override {
    return line_.take_number(key_, value);
  }
  bool string(string_t& text) override { return line_.take_text(key_, text); }
  bool start_object(std::size_t) override { return !std::exchange(is_begun_, true); }
  bool end_object() override { return true; }
  bool null() override { return false; }
  bool boolean(bool value) override { return line_.take_truth(key_, value); }
  bool binary(binary_t&) override { return false; }
  bool start_array(std::size_t) override { return false; }
  bool end_array() override { return false; }
  bool parse_error(std::size_t, const std::string&, const json::exception&) override {
    return false;
  }

 private:
  Line& line_;
  std::string key_;
  bool is_begun_ = false;
};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// A text of plain letters between quotes, behind which `at` is then; nothing for others.
std::optional<std::string_view> plain_text(const char*& at, const char* end) {
  if (at == end || *at != '"') return std::nullopt;
  const char* const begin = ++at;
  for (; at != end && *at != '"'; ++at) {
    const auto letter = static_cast<unsigned char>(*at);
    if (letter < ' ' || letter > '~' || letter == '\\') return std::nullopt;
  }
  if (at == end) return std::nullopt;
  return std::string_view(begin, static_cast<std::size_t>(at++ - begin));
}

// A number as JSON has them.
std::optional<double> plain_number(const char*& at, const char* end) {
  const char* digits = at;
  if (digits != end && *digits == '-') ++digits;
  if (digits == end || !is_digit(*digits)) return std::nullopt;
  if (*digits == '0' && digits + 1 != end && is_digit(digits[1])) return std::nullopt;
  double number = 0;
  const auto [stop, error] = std::from_chars(at, end, number);
  if (error != std::errc{}) return std::nullopt;
  const auto* const point =
      static_cast<const char*>(std::memchr(at, '.', static_cast<std::size_t>(stop - at)));
  if (point != nullptr && (point + 1 == stop || !is_digit(point[1]))) return std::nullopt;
  at = stop;
  return number;
}

bool skip(const char*& at, const char* end, char wanted) {
  while (at != end && *at == ' ') ++at;
  if (at == end || *at != wanted) return false;
  ++at;
  while (at != end && *at == ' ') ++at;
  return true;
}

}  // namespace

void Line::clear() {
  count = 0;
  note.clear();
  time = 0;
  step = 0;
  goes_on = false;
  has_step_ = false;
}

bool Line::parse(const char* begin, const char* end) {
  clear();
  if (parse_plain(begin, end)) return has_step_;
  clear();
  Reader reader(*this);
  return json::sax_parse(begin, end, &reader) && has_step_;
}

bool Line::parse_plain(const char* at, const char* end) {
  if (!skip(at, end, '{')) return false;
  do {
    const auto key = plain_text(at, end);
    if (!key || !skip(at, end, ':')) return false;
    if (const auto number = plain_number(at, end)) {
      if (!take_number(*key, *number)) return false;
    } else if (const auto text = plain_text(at, end)) {
      if (!take_text(*key, *text)) return false;
    } else {
      return false;
    }
  } while (skip(at, end, ','));
  return skip(at, end, '}') && at == end;
}

bool Line::take_number(std::string_view key, double value) {
  if (key == "time") {
    time = value;
  } else if (key == "step") {
    // Of a double that is no such number the conversion would be anything.
    constexpr double kMost = 9e18;
    if (!(value >= 0 && value < kMost)) return false;
    step = static_cast<std::int64_t>(value);
    has_step_ = true;
  } else {
    if (values.size() == count) values.emplace_back();
    values[count].tag.assign(key);
    values[count].number = value;
    ++count;
  }
  return true;
}

bool Line::take_text(std::string_view key, std::string_view text) {
  if (key == "note") {
    note.assign(text);
    return true;
  }
  if (key == "time" || key == "step") return false;
  const auto number = number_of(text);
  return number && take_number(key, *number);
}

bool Line::take_truth(std::string_view key, bool value) {
  goes_on = value;
  return key == "goes_on";
}

}  // namespace sullae::runs
