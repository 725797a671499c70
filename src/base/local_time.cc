#include "base/local_time.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "sullae/error.h"

namespace sullae {
namespace {

constexpr Time kDay = 24 * 3600;

// Days that are a number of minutes old, on the clock.
struct Moment {
  int year;
  int day;  // of the year
  int minutes;
  auto operator<=>(const Moment&) const = default;
};
Moment moment_of(Time time) {
  const std::tm parts = local_time(time);
  return {parts.tm_year, parts.tm_yday, parts.tm_hour * 60 + parts.tm_min};
}

bool is_same(const std::tm& one, const std::tm& other) {
  return one.tm_year == other.tm_year && one.tm_mon == other.tm_mon &&
         one.tm_mday == other.tm_mday && one.tm_hour == other.tm_hour &&
         one.tm_min == other.tm_min && one.tm_sec == other.tm_sec;
}

}  // namespace

std::tm local_time(Time time) {
  const std::time_t seconds = time;
  std::tm parts{};
  ::localtime_r(&seconds, &parts);
  return parts;
}

std::string format_local(Time time, const std::string& form) {
  const std::tm parts = local_time(time);
  std::array<char, 256> text{};
  return {text.data(), std::strftime(text.data(), text.size(), form.c_str(), &parts)};
}

Time first_at(const std::tm& day, int minutes) {
  Time first = std::numeric_limits<Time>::max();
  for (const int is_summer : {0, 1}) {
    std::tm parts = day;
    parts.tm_hour = minutes / 60;
    parts.tm_min = minutes % 60;
    parts.tm_sec = 0;
    parts.tm_isdst = is_summer;
    const Time time = ::mktime(&parts);
    const std::tm shown = local_time(time);
    if (shown.tm_mday == day.tm_mday && shown.tm_hour * 60 + shown.tm_min == minutes)
      first = std::min(first, time);
  }
  if (first != std::numeric_limits<Time>::max()) return first;
  std::tm noon = day;
  noon.tm_hour = 12;
  noon.tm_min = noon.tm_sec = 0;
  noon.tm_isdst = -1;
  const Time middle = ::mktime(&noon);
  const std::tm of_noon = local_time(middle);
  const Moment wanted{of_noon.tm_year, of_noon.tm_yday, minutes};
  // The clock does not go back on such a day.
  Time before = middle - kDay;
  Time behind = middle + kDay;
  while (behind - before > 1) {
    const Time between = before + (behind - before) / 2;
    (moment_of(between) < wanted ? before : behind) = between;
  }
  return behind;
}

Time parse_time(std::string_view text, std::string_view what) {
  const std::string copy(text);
  for (const char* const form :
       {"%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M", "%Y-%m-%d"}) {
    std::tm parts{};
    const char* const end = ::strptime(copy.c_str(), form, &parts);
    if (end == nullptr) continue;
    std::tm utc = parts;
    const Time in_utc = ::timegm(&utc);
    if (!is_same(utc, parts))
      throw InputError(fmt::format("{} '{}': there is no such date or time", what, text));
    if (*end == '\0') return first_at(parts, parts.tm_hour * 60 + parts.tm_min) + parts.tm_sec;
    std::tm with_zone{};
    const char* const behind = ::strptime(end, "%z", &with_zone);
    if (behind != nullptr && *behind == '\0') return in_utc - with_zone.tm_gmtoff;
  }
  throw InputError(fmt::format("{} '{}': expected a time such as 2026-11-25T06:00:00", what, text));
}

}  // namespace sullae
