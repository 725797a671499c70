// When pipelines are due, on clocks that change.
#include "pipeline/schedule.h"

#include <gtest/gtest.h>

#include <ctime>

#include "support/errors.h"
#include "support/variable.h"

namespace sullae::pipeline {
namespace {

using testing::contains;
using testing::error_of;

class ScheduleIn : public ::testing::Test {
 protected:
  void in(const char* zone) {
    zone_.emplace("TZ", zone);
    ::tzset();
  }
  void TearDown() override {
    zone_.reset();
    ::tzset();
  }
  static Time at(const char* text) { return parse_time(text, "time"); }
  // The next ones, as the clock shows them.
  static std::vector<std::string> next(const char* every, const char* after, int count) {
    const auto schedule = Schedule::parse(every, "every");
    std::vector<std::string> times;
    Time time = at(after);
    for (int i = 0; i < count; ++i) {
      time = schedule.next(time);
      times.push_back(to_text(time));
    }
    return times;
  }
  std::optional<testing::Variable> zone_;
};

TEST_F(ScheduleIn, SeoulIsTheSameEveryDay) {
  in("Asia/Seoul");
  EXPECT_EQ(next("day at 02:00", "2026-11-24T01:59:59", 2),
            (std::vector<std::string>{"2026-11-24T02:00:00+0900", "2026-11-25T02:00:00+0900"}));
  EXPECT_EQ(next("day at 2:00", "2026-11-24T02:00:00", 1),
            std::vector<std::string>{"2026-11-25T02:00:00+0900"});
  EXPECT_EQ(next("weekday at 23:30", "2026-11-27T23:30", 2),
            (std::vector<std::string>{"2026-11-30T23:30:00+0900", "2026-12-01T23:30:00+0900"}));
  EXPECT_EQ(next("sunday at 00:00", "2026-12-30", 2),
            (std::vector<std::string>{"2027-01-03T00:00:00+0900", "2027-01-10T00:00:00+0900"}));
  EXPECT_EQ(next("hour at :15", "2026-11-24T10:15", 2),
            (std::vector<std::string>{"2026-11-24T11:15:00+0900", "2026-11-24T12:15:00+0900"}));
  EXPECT_EQ(next("90 minutes", "2026-11-24T09:00", 2),
            (std::vector<std::string>{"2026-11-24T10:30:00+0900", "2026-11-24T12:00:00+0900"}));
}

// Clocks go from 02:00 to 03:00 on 2027-03-28, and from 03:00 to 02:00 on 2026-10-25.
TEST_F(ScheduleIn, ATimeThatIsNotThereIsWhenClocksAreSetForward) {
  in("Europe/Berlin");
  EXPECT_EQ(next("day at 02:30", "2027-03-27T02:30", 2),
            (std::vector<std::string>{"2027-03-28T03:00:00+0200", "2027-03-29T02:30:00+0200"}));
  EXPECT_EQ(next("hour", "2027-03-28T01:00", 2),
            (std::vector<std::string>{"2027-03-28T03:00:00+0200", "2027-03-28T04:00:00+0200"}));
}

TEST_F(ScheduleIn, ATimeThatIsThereTwiceCountsOnce) {
  in("Europe/Berlin");
  EXPECT_EQ(next("day at 02:30", "2026-10-24T02:30", 2),
            (std::vector<std::string>{"2026-10-25T02:30:00+0200", "2026-10-26T02:30:00+0100"}));
  // Hours are there both.
  EXPECT_EQ(next("hour", "2026-10-25T01:00", 3),
            (std::vector<std::string>{"2026-10-25T02:00:00+0200", "2026-10-25T02:00:00+0100",
                                      "2026-10-25T03:00:00+0100"}));
}

// Midnight itself is not there.
TEST_F(ScheduleIn, MidnightMayBeMissing) {
  in("America/Asuncion");
  const auto schedule = Schedule::parse("day at 00:00", "every");
  const Time before = at("2023-09-30T12:00");
  const Time due = schedule.next(before);
  EXPECT_EQ(to_text(due), "2023-10-01T01:00:00-0300");
  EXPECT_EQ(to_text(schedule.next(due)), "2023-10-02T00:00:00-0300");
}

TEST_F(ScheduleIn, TheLastThatWasDue) {
  in("Europe/Berlin");
  const auto latest = [&](const char* every, const char* now) {
    return to_text(Schedule::parse(every, "every").latest(at(now)));
  };
  EXPECT_EQ(latest("day at 02:00", "2026-11-24T01:59"), "2026-11-23T02:00:00+0100");
  EXPECT_EQ(latest("day at 02:00", "2026-11-24T02:00"), "2026-11-24T02:00:00+0100");
  EXPECT_EQ(latest("monday at 02:00", "2026-11-22T12:00"), "2026-11-16T02:00:00+0100");
  EXPECT_EQ(latest("hour at :15", "2026-11-24T10:14"), "2026-11-24T09:15:00+0100");
  EXPECT_EQ(latest("10 minutes", "2026-11-24T10:19:59"), "2026-11-24T10:10:00+0100");
}

TEST_F(ScheduleIn, DeadlinesAreTimesOfTheDayOrSpans) {
  in("Europe/Berlin");
  const auto deadline = [&](const char* scheduled, const char* text) {
    return to_text(deadline_after(at(scheduled), text, "deadline"));
  };
  EXPECT_EQ(deadline("2026-11-24T02:00", "06:00"), "2026-11-24T06:00:00+0100");
  EXPECT_EQ(deadline("2026-11-24T22:00", "06:00"), "2026-11-25T06:00:00+0100");
  EXPECT_EQ(deadline("2026-10-25T01:00", "4h"), "2026-10-25T04:00:00+0100") << "an hour twice";
  EXPECT_EQ(deadline("2026-11-24T02:00", "90m"), "2026-11-24T03:30:00+0100");
  // Clocks go from two to three.
  EXPECT_EQ(deadline("2027-03-28T02:30", "02:45"), "2027-03-28T03:45:00+0200");
  EXPECT_EQ(deadline("2027-03-28T01:30", "02:45"), "2027-03-28T03:45:00+0200");
  EXPECT_EQ(deadline("2027-03-28T02:30", "06:00"), "2027-03-28T06:00:00+0200");
  EXPECT_EQ(deadline("2026-10-25T01:30", "02:45"), "2026-10-25T02:45:00+0200") << "the first";
  in("Africa/Cairo");  // from midnight to one
  EXPECT_EQ(deadline("2026-04-23T22:00", "00:30"), "2026-04-24T01:30:00+0300");
}

TEST_F(ScheduleIn, TimesComeBack) {
  in("Europe/Berlin");
  for (const char* text : {"2026-10-25T02:30:00+0200", "2026-10-25T02:30:00+0100"})
    EXPECT_EQ(to_text(at(text)), text);
  EXPECT_EQ(to_text(at("2026-11-24T02:00:00+0900")), "2026-11-23T18:00:00+0100");
  EXPECT_EQ(error_of([&] { at("tonight"); }),
            "time 'tonight': expected a time such as 2026-11-25T06:00:00");
}

TEST(Schedule, IsRefusedWithWhatWasExpected) {
  for (const char* text : {"", "day", "day at 25:00", "someday at 02:00", "0 minutes", "day at 2",
                           "hour at :60", "5 days", "Day at 02:00"})
    EXPECT_TRUE(
        contains(error_of([&] { Schedule::parse(text, "every"); }), "': expected 'day at 02:00'"))
        << text;
  for (const char* text : {"", "6", "24:00", "4 h", "0h", "4d"})
    EXPECT_TRUE(contains(error_of([&] { deadline_after(0, text, "deadline"); }),
                         "': expected a time of the day, '06:00', or how long it may take"))
        << text;
}

TEST(Schedule, SpansAreShownForPeople) {
  EXPECT_EQ(format_seconds(0.4), "0s");
  EXPECT_EQ(format_seconds(75), "1m 15s");
  EXPECT_EQ(format_seconds(3600 * 3 + 60 * 12), "3h 12m");
}

}  // namespace
}  // namespace sullae::pipeline
