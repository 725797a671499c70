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

constexpr std::array<const char*, 7> kDays = {"sunday",   "monday", "tuesday", "wednesday",
                                              "thursday", "friday", "saturday"};

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

int minutes_in(const std::tm& parts) { return parts.tm_hour * 60 + parts.tm_min; }

// A time that clocks leave out is as far behind the hour that is there as it is behind the one that
// is not: what is due between two such times has as long as on other nights.
Time shifted_at(const std::tm& day, int minutes) {
  const Time time = first_at(day, minutes);
  if (minutes_in(local_time(time)) == minutes) return time;
  constexpr int kDay = 24 * 60;
  const int left_out = (minutes_in(local_time(time - 60)) + 1) % kDay;
  return time + (minutes - left_out) * 60;
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
    if (const Time time = first_at(day, minutes_); time > after) return time;
  }
}

Time Schedule::latest(Time now) const {
  constexpr Time kLongest = Time{8} * 24 * 3600;
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
      if (const Time time = shifted_at(day_of(scheduled, later), *minutes); time > scheduled)
        return time;
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
