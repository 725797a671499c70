// What ranks tell each other in a cycle, as bytes and in words.
#include "engine/negotiation/announcement.h"

#include <gtest/gtest.h>

#include "support/errors.h"

namespace sullae::engine {
namespace {

using sullae::testing::contains;
using sullae::testing::error_of;

Request sum_named(const std::string& name, std::size_t count) {
  return {
      .name = name,
      .signature = {.operation = Operation::allreduce, .type = DataType::float32, .count = count}};
}

TEST(Announcement, ArrivesAsItWas) {
  Announcement announcement{.cached = {7, 1, 2, 3, 900},
                            .requests = {sum_named("a", 4), sum_named("", 0)},
                            .joined = true,
                            .given_up = {{"x", ""}, {"y", "why"}},
                            .waiting = {{"set0/", {1, 3}, "z", false}, {"", {0}, "w", true}}};
  announcement.requests[0].sizes = {1, 3};
  announcement.requests[0].shape = "[2, 2]";
  announcement.requests[1].prescale = 0.5;
  announcement.requests[1].joined_too = true;
  const auto copy = Announcement::decode(announcement.encode());
  EXPECT_EQ(copy.cached, (std::vector<std::uint32_t>{1, 2, 3, 7, 900}));
  EXPECT_EQ(copy.requests, announcement.requests);
  EXPECT_TRUE(copy.joined);
  EXPECT_FALSE(copy.leaving);
  ASSERT_EQ(copy.given_up.size(), 2U);
  EXPECT_EQ(copy.given_up[1].name, "y");
  EXPECT_EQ(copy.given_up[1].reason, "why");
  EXPECT_EQ(copy.waiting, announcement.waiting);
  EXPECT_TRUE(Announcement{}.encode().empty());
}

TEST(Announcement, ThatNobodyWritesIsRefused) {
  const Announcement announcement{.waiting = {{"", {}, "", true}}};
  auto bytes = announcement.encode();
  const auto refusal = [&] {
    return error_of([&] { Announcement::decode(bytes); });
  };
  bytes.back() = 41;
  EXPECT_TRUE(contains(refusal(), "neither 0 nor 1")) << refusal();
  bytes.pop_back();
  EXPECT_TRUE(contains(refusal(), "ends too early")) << refusal();
  bytes[1] = 127;
  EXPECT_TRUE(contains(refusal(), "counts more than it holds")) << refusal();
  bytes = std::string(1, '\0');
  const std::uint32_t numbers[] = {1, 0, 1U << 25};
  bytes.append(reinterpret_cast<const char*>(numbers), sizeof numbers);
  EXPECT_TRUE(contains(refusal(), "more operations than there can be")) << refusal();
}

TEST(Request, SaysWhatItIs) {
  Request request = sum_named("a", 12);
  request.sizes = {4, 4, 4};
  request.prescale = 0.5;
  EXPECT_EQ(request.describe(),
            "allreduce (sum) of 12 float32 in tensors of (4, 4, 4), prescale 0.5");
  request.signature.operation = Operation::allgather;
  request.prescale = 1;
  request.sizes.assign(10, 1);
  EXPECT_EQ(request.describe(),
            "allgather of float32 with counts (1, 1, 1, 1, 1, 1, 1, 1, … 10 in all)");
}

}  // namespace
}  // namespace sullae::engine
