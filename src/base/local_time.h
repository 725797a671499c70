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
/// Of "2026-11-25T06:00:00", "2026-11-25 06:00" or "2026-11-25", in local time, or with a zone behind it: "2026-11-25T06:00:00+0900".
/// Throws InputError that begins with `what`.
Time parse_time(std::string_view text, std::string_view what);

}  // namespace sullae
