#include "pipeline/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>
#include <limits>
#include <regex>

#include "sullae/error.h"

namespace sullae::pipeline {
namespace {

constexpr Time kDay = 24 * 3600;
constexpr std::array<const char*, 7> kDays = {"sunday",   "monday", "tuesday", "wednesday",
                                              "thursday", "friday", "saturday"};

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

// The first instant of this local day at which the clock shows `minutes`, or, where it never does, is past it.
Time at(const std::tm& day, int minutes) {
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

std::tm day_of(Time time, int later) {
  std::tm parts = local_time(time);
  parts.tm_mday += later;
  parts.tm_hour = 12;
  parts.tm_min = parts.tm_sec = 0;
  parts.tm_isdst = -1;
  return local_time(::mktime(&parts));
}

std::optional<int> minutes_of(const std::string& text) {
  static const std::regex pattern("([01]?[0-9]|2[0-3]):([0-5][0-9])");
  std::smatch found;
  if (!std::regex_match(text, found, pattern)) return std::nullopt;
  return std::stoi(found[1]) * 60 + std::stoi(found[2]);
}

std::optional<Time> unit_of(const std::string& word) {
  if (word.starts_with("s")) return 1;
  if (word.starts_with("m")) return 60;
  if (word.starts_with("h")) return 3600;
  return std::nullopt;
}

}  // namespace

Schedule Schedule::parse(std::string_view text, std::string_view what) {
  const std::string words(text);
  std::smatch found;
  Schedule schedule;
  static const std::regex daily("([a-z]+) at ([0-9:]+)");
  static const std::regex hourly("hour( at :([0-5][0-9]))?");
  static const std::regex interval("([1-9][0-9]{0,5}) (second|minute|hour)s?");
  if (std::regex_match(words, found, hourly)) {
    schedule.kind_ = Kind::hourly;
    schedule.minutes_ = found[2].matched ? std::stoi(found[2]) : 0;
    return schedule;
  }
  if (std::regex_match(words, found, interval)) {
    schedule.kind_ = Kind::interval;
    schedule.seconds_ = std::stoll(found[1]) * unit_of(found[2]).value();
    return schedule;
  }
  if (std::regex_match(words, found, daily)) {
    const auto minutes = minutes_of(found[2]);
    const auto day = std::ranges::find(kDays, found[1].str());
    if (found[1] == "weekday") schedule.days_ = 0x3E;
    if (day != kDays.end()) schedule.days_ = 1U << (day - kDays.begin());
    if (minutes && (found[1] == "day" || found[1] == "weekday" || day != kDays.end())) {
      schedule.minutes_ = *minutes;
      return schedule;
    }
  }
  throw InputError(fmt::format(
      "{} = '{}': expected 'day at 02:00', 'weekday at 02:00', 'monday at 02:00', 'hour', 'hour at "
      ":15', or '10 minutes'",
      what, text));
}

Time Schedule::next(Time after) const {
  if (kind_ == Kind::interval) return (after / seconds_ + 1) * seconds_;
  if (kind_ == Kind::hourly) {
    constexpr Time kMinute = 60;
    Time time = (after / kMinute + 1) * kMinute;
    while (local_time(time).tm_min != minutes_) time += kMinute;
    return time;
  }
  for (int later = 0;; ++later) {
    const std::tm day = day_of(after, later);
    if ((days_ >> static_cast<unsigned>(day.tm_wday) & 1U) == 0) continue;
    if (const Time time = at(day, minutes_); time > after) return time;
  }
}

Time Schedule::latest(Time now) const {
  constexpr Time kLongest = 8 * kDay;
  Time found = next(kind_ == Kind::interval ? now - seconds_
                    : kind_ == Kind::hourly ? now - 3 * 3600
                                            : now - kLongest);
  for (Time later = next(found); later <= now; later = next(found)) found = later;
  return found;
}

Time deadline_after(Time scheduled, std::string_view text, std::string_view what) {
  const std::string words(text);
  static const std::regex span("([1-9][0-9]{0,5})(s|m|h)");
  std::smatch found;
  if (std::regex_match(words, found, span))
    return scheduled + std::stoll(found[1]) * unit_of(found[2]).value();
  if (const auto minutes = minutes_of(words)) {
    for (int later = 0;; ++later) {
      if (const Time time = at(day_of(scheduled, later), *minutes); time > scheduled) return time;
    }
  }
  throw InputError(
      fmt::format("{} = '{}': expected a time of the day, '06:00', or how long it may "
                  "take, '4h' or '90m'",
                  what, text));
}

std::string to_text(Time time) { return format_local(time, "%Y-%m-%dT%H:%M:%S%z"); }

// Not as train's "1:02:03", which stands beside no times of the day.
std::string format_seconds(double seconds) {
  const auto whole = static_cast<Time>(std::llround(std::max(0.0, seconds)));
  if (whole < 60) return fmt::format("{}s", whole);
  if (whole < 3600) return fmt::format("{}m {:02}s", whole / 60, whole % 60);
  return fmt::format("{}h {:02}m", whole / 3600, whole / 60 % 60);
}

}  // namespace sullae::pipeline
