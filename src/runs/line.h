// A line of metrics.jsonl. Only History needs it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sullae::runs {

/// What a line says: numbers by tag, and maybe a note. Made once and used for many lines.
struct Line {
  struct Value {
    std::string tag;
    double number = 0;
  };
  std::vector<Value> values;
  std::size_t count = 0;  ///< of them
  std::string note;
  double time = 0;
  std::int64_t step = 0;
  bool goes_on = false;  ///< behind this step, whatever was there of later ones

  /// False for what is no line of ours. Plain lines, which nearly all are, are read an order of
  /// magnitude faster than a reader for all of JSON does.
  bool parse(const char* begin, const char* end);

  /// Of a line that is read: what a reader of JSON calls. False ends it.
  bool take_number(std::string_view key, double value);
  bool take_text(std::string_view key, std::string_view text);
  bool take_truth(std::string_view key, bool value);

 private:
  void clear();
  bool parse_plain(const char* at, const char* end);

  bool has_step_ = false;
};

}  // namespace sullae::runs
