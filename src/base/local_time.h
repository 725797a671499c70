// Times on this host's clock (TZ), as people write and read them.
#pragma once

#include <cstdint>
#include <ctime>
#include <string>
#include <string_view>

namespace sullae {

/// Seconds since 1970, UTC.
using Time = std::int64_t;

/// What clocks and calendars show.
std::tm local_time(Time time);
/// strftime() of local time.
std::string format_local(Time time, const std::string& form);
/// The first instant of the local day `day` at which the clock shows `minutes` since midnight, or,
/// where it never does, is past it.
Time first_at(const std::tm& day, int minutes);
/// Of "2026-11-25T06:00:00", "2026-11-25 06:00" or "2026-11-25", in local time, or with a zone
/// behind it: "2026-11-25T06:00:00+0900". Of a local time that there is twice, the first. Throws
/// InputError that begins with `what`, also for what no calendar has.
Time parse_time(std::string_view text, std::string_view what);

}  // namespace sullae
