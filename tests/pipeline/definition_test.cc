#include "pipeline/definition.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "support/errors.h"
#include "support/temporary_directory.h"

namespace sullae::pipeline {
namespace {

using testing::contains;
using testing::error_of;

class PipelineFile : public ::testing::Test {
 protected:
  Pipeline read(const std::string& text) {
    write_file(file_, text);
    return read_pipeline(file_);
  }
  std::string error(const std::string& text) {
    const auto message = error_of<InputError>([&] { read(text); });
    EXPECT_TRUE(message.starts_with(file_.string())) << message;
    return message.substr(file_.string().size());
  }
  static std::vector<std::string> names(const Pipeline& pipeline) {
    std::vector<std::string> names;
    for (const Step& step : pipeline.steps) names.push_back(step.name);
    return names;
  }

  testing::TemporaryDirectory directory_;
  std::filesystem::path file_ = directory_.path() / "nightly.toml";
};

TEST_F(PipelineFile, SaysWhatAPipelineIs) {
  const auto pipeline = read(R"(
every = "day at 02:00"
deadline = "06:00"
overlap = "replace"
parallel = 2
[environment]
LANG = "C"
[tell]
command = "mail"
of = "late"
[steps.b]
run = "b {date}"
needs = "made/{date}"
time = "2h"
attempts = 3
job = ["--nodes", "2"]
[steps.a]
run = "a"
makes = ["made"]
[steps.c]
run = "c"
after = ["b"]
)");
  EXPECT_EQ(pipeline.name, "nightly");
  EXPECT_EQ(pipeline.folder, directory_.path());
  EXPECT_EQ(pipeline.overlap, Overlap::replace);
  EXPECT_EQ(pipeline.tell.of, std::vector<std::string>{"late"});
  EXPECT_EQ(names(pipeline), (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(pipeline.step("b").after, std::vector<std::string>{"a"}) << "which makes what it needs";
  EXPECT_EQ(pipeline.step("b").time, std::chrono::hours{2});
  EXPECT_EQ(pipeline.step("b").job, (std::vector<std::string>{"--nodes", "2"}));
}

TEST_F(PipelineFile, StepsFollowThoseThatMakeWhatTheyNeed) {
  const auto after = [&](const std::string& makes, const std::string& needs) {
    return read("[steps.a]\nrun='a'\nmakes='" + makes + "'\n[steps.b]\nrun='b'\nneeds='" + needs +
                "'\n")
        .step("b")
        .after.size();
  };
  EXPECT_EQ(after("x", "x"), 1U);
  EXPECT_EQ(after("x", "./x/y.csv"), 1U);
  EXPECT_EQ(after("x/y.csv", "x"), 1U);
  EXPECT_EQ(after("x", "xy"), 0U);
  EXPECT_EQ(after("x/", "x/y"), 1U);
  EXPECT_EQ(after("x/y", "x/"), 1U);
  EXPECT_EQ(after("x/", "x"), 1U);
  EXPECT_EQ(after("{date}/x", "{date}/x"), 1U);
  EXPECT_EQ(after("s3://b/x", "s3://b/x/part-0"), 1U);
}

TEST_F(PipelineFile, IsRefusedWithItsLine) {
  EXPECT_EQ(error("every = \"noon\"\n[steps.a]\nrun='a'"),
            ", line 1: every = 'noon': expected 'day at 02:00', 'weekday at 02:00', 'monday at "
            "02:00', 'hour', 'hour at :15', or '10 minutes'");
  EXPECT_TRUE(
      contains(error("\ndeadline = \"x\"\n[steps.a]\nrun='a'"), ", line 2: deadline = 'x'"));
  EXPECT_EQ(error(""), ": has no steps: expected [steps.NAME]");
  EXPECT_TRUE(
      contains(error("[steps.a]\nruns='a'"), ", line 2: 'runs' is no setting (did you mean run?)"));
  EXPECT_TRUE(contains(error("[steps.a]\nneeds='a'"),
                       ", line 1: steps.a: expected what it does, run = \"COMMAND\""));
  EXPECT_TRUE(contains(error("[steps.a]\nrun='a'\nafter='b'"),
                       ", line 1: steps.a: after 'b': there is no such step"));
  EXPECT_EQ(
      error("[steps.a]\nrun='a'\nafter='b'\n[steps.b]\nrun='b'\nafter='a'\n[steps.c]\nrun='c'"),
      ": steps wait for each other: a, b");
  EXPECT_TRUE(
      contains(error("[steps.'a b']\nrun='a'"), "steps.a b: expected a table, under a name"));
  EXPECT_TRUE(contains(error("[steps.a]\nrun='a'\ntime='long'"), ", line 3: time = 'long'"));
  EXPECT_TRUE(contains(error("[tell]\nof=['soon']\n[steps.a]\nrun='a'"),
                       ", line 2: 'soon': expected late, failed or done"));
  EXPECT_TRUE(contains(error("name='a/b'\n[steps.a]\nrun='a'"), ": the name 'a/b': expected"));
  EXPECT_TRUE(contains(error("[steps.a]\nrun='a {x}'\nmakes='work/{dte}/x'"),
                       ", line 3: 'work/{dte}/x': expected {date}, {time}, {name} or {%…} in place "
                       "of {dte}"));
  EXPECT_TRUE(
      contains(error("overlap='both'\n[steps.a]\nrun='a'"), ", line 1: overlap: expected one of"));
  EXPECT_TRUE(
      contains(error("[steps.a]\nrun='a'\nmakes='x'\n[steps.b]\nrun='b'\nmakes='./x/'"),
               ", line 4: steps.b: makes './x/', as a does: expected one step that makes it"));
  EXPECT_TRUE(contains(error("[steps.a]\nrun='a'\nmakes='x'\nneeds='x/y'"),
                       ", line 1: steps.a: needs what it makes itself"));
  EXPECT_TRUE(contains(error("[steps.a]\nrun='a'\nmakes=''"), ", line 3: an empty path: expected"));
  EXPECT_TRUE(
      contains(error("[steps.a]\nrun=3"), ", line 2: run: expected a text in quotes, got 3"));
}

TEST_F(PipelineFile, TimesArePutIn) {
  const auto pipeline = read("[steps.a]\nrun='a'");
  const Time time = parse_time("2026-11-24T02:03:04", "time");
  EXPECT_EQ(expand("{date} {%Y/%m/%d} {name} ${name} ${date} {x} {a,b} {", pipeline, time),
            "2026-11-24 2026/11/24 nightly ${name} ${date} {x} {a,b} {");
  EXPECT_EQ(expand("{time}", pipeline, time), to_text(time));
}

}  // namespace
}  // namespace sullae::pipeline
