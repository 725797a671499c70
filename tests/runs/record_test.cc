#include "runs/record.h"

#include <gtest/gtest.h>

#include "support/errors.h"

namespace sullae::testing {
namespace {

TEST(RunRecord, WhatIsNoneIsNamed) {
  const auto error = [](const char* text) {
    return error_of<InputError>([&] { runs::record_from(text, "/a/run.json"); });
  };
  EXPECT_TRUE(contains(error("{"), "/a/run.json: no record of a run: "));
  EXPECT_TRUE(contains(error("[]"), "it has no \"sullae_run\""));
  EXPECT_TRUE(contains(error(R"({"state": "done"})"), "it has no \"sullae_run\""));
  EXPECT_TRUE(
      contains(error(R"({"sullae_run": 2})"), "it is of format 2, and this program reads 1"));
  EXPECT_TRUE(contains(error(R"({"sullae_run": 1})"), "key 'name' not found"));
  auto text = runs::to_text({.name = "a", .ended = runs::Ended{.time = 5}});
  text.replace(text.find("completed"), 9, "exploded");
  EXPECT_TRUE(contains(error(text.c_str()), "'exploded' is no way to end"));
}

}  // namespace
}  // namespace sullae::testing
