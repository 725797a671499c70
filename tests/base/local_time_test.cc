// Times as people write them, on clocks that change.
#include "base/local_time.h"

#include <gtest/gtest.h>

#include <ctime>

#include "support/errors.h"
#include "support/variable.h"

namespace sullae::testing {
namespace {

Time parsed(const char* zone, const char* text) {
  const Variable in("TZ", zone);
  ::tzset();
  return parse_time(text, "--scheduled");
}

TEST(LocalTime, IsReadWithAndWithoutAZone) {
  EXPECT_EQ(parsed("UTC", "2026-11-25T06:00:30"), 1795586430);
  EXPECT_EQ(parsed("UTC", "2026-11-25 06:00"), 1795586400);
  EXPECT_EQ(parsed("Asia/Seoul", "2026-11-25 06:00"), 1795586400 - 9 * 3600);
  EXPECT_EQ(parsed("Asia/Seoul", "2026-11-25T06:00:00+0000"), 1795586400);
}

// At 03:00 of 25 October the clock goes back to 02:00; at 02:00 of 28 March it goes on to 03:00.
TEST(LocalTime, ThatIsThereTwiceOrNotAtAllIsTheFirstThatIsNotBefore) {
  const char* const zone = "CET-1CEST,M3.5.0,M10.5.0/3";
  EXPECT_EQ(parsed(zone, "2026-10-25T02:30"), parsed(zone, "2026-10-25T02:30:00+0200"));
  EXPECT_EQ(parsed(zone, "2027-03-28T02:30"), parsed(zone, "2027-03-28T03:00:00+0200"));
}

TEST(LocalTime, ThatNoCalendarHasIsRefused) {
  EXPECT_EQ(error_of([] { parsed("UTC", "2026-02-30"); }),
            "--scheduled '2026-02-30': there is no such date or time");
  EXPECT_TRUE(contains(error_of([] { parsed("UTC", "2027-02-29T00:00:00+0900"); }),
                       "there is no such date or time"));
  EXPECT_EQ(parsed("UTC", "2028-02-29"), 1835395200);
  EXPECT_TRUE(contains(error_of([] { parsed("UTC", "tomorrow"); }), "expected a time such as"));
}

}  // namespace
}  // namespace sullae::testing
