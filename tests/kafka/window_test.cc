#include "kafka/window.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "support/errors.h"
#include "support/kafka_cluster.h"
#include "support/variable.h"

namespace sullae::kafka {
namespace {

using testing::contains;
using testing::error_of;
using testing::KafkaCluster;

class KafkaWindow : public ::testing::Test {
 protected:
  KafkaWindow() { cluster_.make_topic("reviews", 3); }
  Address address(const std::string& offsets = "") const {
    return parse_address(cluster_.address("reviews") + offsets);
  }
  void put(std::int32_t partition, int count) {
    for (int i = 0; i < count; ++i) cluster_.put("reviews", partition, "", fmt::format("v{}", i));
    cluster_.flush();
  }
  static std::vector<std::string> fetch(const Address& from) {
    std::vector<std::string> texts;
    fetch_window(from, [&](const Message& message) {
      texts.push_back(
          fmt::format("{}/{}={}", message.partition, message.offset, message.value.value_or("-")));
    });
    std::ranges::sort(texts);
    return texts;
  }

  KafkaCluster cluster_;
};

TEST_F(KafkaWindow, IsWhatIsThereAndStaysSo) {
  put(0, 3);
  put(2, 2);
  Address window = address();
  window.window = find_window(window, "");
  EXPECT_EQ(window.window, (Window{{0, {0, 3}}, {2, {0, 2}}}));
  put(0, 5);
  put(1, 1);
  EXPECT_EQ(fetch(window),
            (std::vector<std::string>{"0/0=v0", "0/1=v1", "0/2=v2", "2/0=v0", "2/1=v1"}));
}

TEST_F(KafkaWindow, MayBeginAndEndAnywhere) {
  put(0, 10);
  EXPECT_EQ(fetch(address("?0=3-5")), (std::vector<std::string>{"0/3=v3", "0/4=v4"}));
  EXPECT_EQ(fetch(address("?0=9-10")), (std::vector<std::string>{"0/9=v9"}));
  EXPECT_TRUE(fetch(address("?0=4-4&1=0-0")).empty());
}

TEST_F(KafkaWindow, OfAGroupFollowsWhatItHasDone) {
  put(0, 3);
  Address window = address();
  window.window = find_window(window, "nightly");
  commit_window(window, "nightly");
  EXPECT_TRUE(find_window(address(), "nightly").empty());
  put(0, 2);
  put(1, 1);
  EXPECT_EQ(find_window(address(), "nightly"), (Window{{0, {3, 5}}, {1, {0, 1}}}));
  EXPECT_EQ(find_window(address(), "other"), (Window{{0, {0, 5}}, {1, {0, 1}}}));
}

TEST_F(KafkaWindow, OfATopicThatWasMadeAnewIsRefused) {
  put(0, 3);
  Address done = address("?0=0-9");
  commit_window(done, "nightly");
  EXPECT_TRUE(contains(error_of([&] { find_window(address(), "nightly"); }),
                       "partition 0: offset 9 is not there: the topic has 0 to 3"));
}

TEST_F(KafkaWindow, ThatIsNotThereIsRefused) {
  put(0, 3);
  EXPECT_EQ(error_of([&] { fetch(address("?0=0-5")); }),
            address().name() +
                ": partition 0: offset 4 is not there: the topic has 0 to 3, expected messages "
                "that are kept until they are read (retention.ms, retention.bytes)");
}

// The mock cluster keeps 5 MB a partition.
TEST_F(KafkaWindow, WhoseBeginningIsGoneIsRefused) {
  for (int i = 0; i < 12; ++i) {
    cluster_.put("reviews", 0, "", std::string(900'000, 'x'));
    cluster_.flush();
  }
  const auto message = error_of([&] { fetch(address("?0=0-12")); });
  EXPECT_TRUE(contains(message, "partition 0: offset 0 is not there: the topic has ")) << message;
}

TEST_F(KafkaWindow, OfBrokersThatGoAwayIsATimeoutWithAName) {
  put(0, 3);
  const testing::Variable timeout("SULLAE_KAFKA_TIMEOUT", "1");
  cluster_.set_down();
  const auto message = error_of([&] { fetch(address("?0=0-3")); });
  EXPECT_TRUE(contains(message, "partition 0: its ends are not known")) << message;
}

}  // namespace
}  // namespace sullae::kafka
