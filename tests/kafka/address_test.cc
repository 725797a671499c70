#include "kafka/address.h"

#include <gtest/gtest.h>

#include "support/errors.h"

namespace sullae::kafka {
namespace {

using testing::contains;
using testing::error_of;

TEST(KafkaAddress, HasBrokersATopicAndOffsets) {
  const auto plain = parse_address("kafka://a:9092,b:9093/reviews");
  EXPECT_EQ(plain.brokers, "a:9092,b:9093");
  EXPECT_EQ(plain.topic, "reviews");
  EXPECT_TRUE(plain.window.empty());
  const std::string text = "kafka://a:9092/re.vi_e-ws?0=0-500&12=20-20";
  const auto some = parse_address(text);
  EXPECT_EQ(some.window, (Window{{0, {0, 500}}, {12, {20, 20}}}));
  EXPECT_EQ(some.to_string(), text);
  EXPECT_EQ(some.name(), "kafka://a:9092/re.vi_e-ws");
}

TEST(KafkaAddress, IsRefusedWithWhatWasExpected) {
  for (const auto& [text, why] : std::vector<std::pair<std::string, std::string>>{
           {"kafka://a:9092", "has no topic: expected kafka://HOST:PORT[,HOST:PORT…]/TOPIC"},
           {"kafka://a:9092/", "'' is no name of a topic"},
           {"kafka:///t", "has no broker"},
           {"kafka://a/t/u", "'t/u' is no name of a topic"},
           {"kafka://a/..", "'..' is no name of a topic"},
           {"s3://a/t", "is no address of a topic"},
           {"kafka://a/t?0=5", "'0=5' is no range of a partition"},
           {"kafka://a/t?0=9-5", "'0=9-5' ends before it begins"},
           {"kafka://a/t?0=0-5&0=5-9", "partition 0 is there twice"},
           {"kafka://a/t?x=0-5", "'x=0-5'"},
           {"kafka://a/t?0=-1-5", "'0=-1-5'"}})
    EXPECT_TRUE(contains(error_of([&] { parse_address(text); }), why))
        << text << ": " << error_of([&] { parse_address(text); });
}

}  // namespace
}  // namespace sullae::kafka
