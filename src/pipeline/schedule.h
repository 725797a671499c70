// When something is due, again and again.
#pragma once

#include <string>
#include <string_view>

#include "base/local_time.h"

namespace sullae::pipeline {

/// Times on this host's clock (TZ). On a night when clocks change a time that is not there is the
/// moment at which they are set forward, and of one that is there twice the first one counts; hours
/// count both. A value.
class Schedule {
 public:
  /// "day at 02:00", "weekday at 02:00", "monday at 02:00", "hour", "hour at :15", "10 minutes", "2
  /// hours", "30 seconds". Throws InputError that begins with `what`.
  static Schedule parse(std::string_view text, std::string_view what);

  /// The first that is later than `after`.
  Time next(Time after) const;
  /// The last that is not later than `now`.
  Time latest(Time now) const;

 private:
  enum class Kind { daily, hourly, interval };
  Kind kind_ = Kind::daily;
  unsigned days_ = 0x7F;  // a bit for each that counts, from Sunday on
  int minutes_ = 0;       // of the day, or of the hour
  Time seconds_ = 0;      // between, counted from 1970 on
};

/// When it is to be over: "06:00", the first such moment after `scheduled`, or so long after it:
/// "4h", "90m". Throws InputError that begins with `what`.
Time deadline_after(Time scheduled, std::string_view text, std::string_view what);

/// "2026-11-24T02:00:00+0900".
std::string to_text(Time time);
/// "3m 20s".
std::string format_seconds(double seconds);

}  // namespace sullae::pipeline
