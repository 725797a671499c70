#include "base/local_time.h"

#include <fmt/format.h>

#include <array>

#include "sullae/error.h"

namespace sullae {

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

Time parse_time(std::string_view text, std::string_view what) {
  const std::string copy(text);
  for (const char* const form :
       {"%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M", "%Y-%m-%d"}) {
    std::tm parts{};
    const char* const end = ::strptime(copy.c_str(), form, &parts);
    if (end == nullptr) continue;
    std::tm utc = parts;
    parts.tm_isdst = -1;
    if (*end == '\0') return ::mktime(&parts);
    std::tm with_zone{};
    const char* const behind = ::strptime(end, "%z", &with_zone);
    if (behind != nullptr && *behind == '\0') return ::timegm(&utc) - with_zone.tm_gmtoff;
  }
  throw InputError(fmt::format("{} '{}': expected a time such as 2026-11-25T06:00:00", what, text));
}

}  // namespace sullae
