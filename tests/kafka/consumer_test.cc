// Consumers and producers with brokers of librdkafka's mock cluster.
#include "kafka/consumer.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <optional>
#include <set>

#include "kafka/producer.h"
#include "kafka/window.h"
#include "support/errors.h"
#include "support/kafka_cluster.h"
#include "support/variable.h"
#include "support/wait_until.h"

namespace sullae::kafka {
namespace {

using std::chrono::milliseconds;
using testing::contains;
using testing::error_of;
using testing::KafkaCluster;

std::string text_of(const Message& message) {
  return fmt::format("{}/{}/{}={}", message.partition, message.offset, message.key.value_or("-"),
                     message.value.value_or("-"));
}

// What comes until there is nothing more.
std::vector<std::string> read_to_end(Consumer& consumer, std::size_t most = 100) {
  std::vector<std::string> texts;
  testing::wait_until([&] {
    for (const auto& message : consumer.poll(most, milliseconds{100}))
      texts.push_back(text_of(message));
    return consumer.standing().is_at_end;
  });
  std::ranges::sort(texts);
  return texts;
}

class Kafka : public ::testing::Test {
 protected:
  Kafka() { cluster_.make_topic("reviews", 3); }
  Address address(const std::string& topic = "reviews") const {
    return parse_address(cluster_.address(topic));
  }
  void put(std::int32_t partition, int count) {
    for (int i = 0; i < count; ++i)
      cluster_.put("reviews", partition, fmt::format("k{}", i), fmt::format("v{}", i));
    cluster_.flush();
  }

  void look_for_topics_often() const {
    std::ofstream(cluster_.config(), std::ios::app) << "topic.metadata.refresh.interval.ms=200\n";
  }

  KafkaCluster cluster_;
  testing::Variable config_{"SULLAE_KAFKA_CONFIG", cluster_.config().c_str()};
};

TEST_F(Kafka, AConsumerGetsAllThatIsThereAndGoesOnWhereItsGroupWas) {
  put(0, 2);
  put(2, 1);
  cluster_.put("reviews", 2, "gone", std::nullopt);
  cluster_.put("reviews", 2, "", "");
  cluster_.flush();
  {
    Consumer consumer(address(), "group");
    EXPECT_EQ(
        read_to_end(consumer),
        (std::vector<std::string>{"0/0/k0=v0", "0/1/k1=v1", "2/0/k0=v0", "2/1/gone=-", "2/2/-="}));
    EXPECT_EQ(consumer.standing().partitions, 3);
    EXPECT_EQ(consumer.standing().lag, 0);
    consumer.commit();
  }
  put(0, 1);
  put(1, 1);
  Consumer again(address(), "group");
  EXPECT_EQ(read_to_end(again), (std::vector<std::string>{"0/2/k0=v0", "1/0/k0=v0"}));
  Consumer other(address(), "other");
  EXPECT_EQ(read_to_end(other).size(), 7);
}

TEST_F(Kafka, WhatWasNotCommittedComesAgain) {
  put(0, 3);
  for (int i = 0; i < 2; ++i) {
    Consumer consumer(address(), "group");
    EXPECT_EQ(read_to_end(consumer).size(), 3);
  }
}

TEST_F(Kafka, NoMoreThanAskedForComeAtOnce) {
  put(0, 10);
  Consumer consumer(address(), "group");
  std::size_t all = 0;
  testing::wait_until([&] {
    const auto some = consumer.poll(3, milliseconds{100});
    EXPECT_LE(some.size(), 3);
    all += some.size();
    return all == 10;
  });
}

// Each message is somebody's, before and after the second has come, and after the first has gone.
TEST_F(Kafka, MembersOfAGroupShareItsPartitions) {
  put(0, 5);
  put(1, 5);
  put(2, 5);
  std::map<std::string, int> seen;
  const auto take = [&](Consumer& consumer) {
    for (const auto& message : consumer.poll(2, milliseconds{50})) ++seen[text_of(message)];
    consumer.commit();
  };
  std::optional<Consumer> one;
  one.emplace(address(), "group");
  take(*one);
  Consumer two(address(), "group");
  testing::wait_until([&] {
    take(*one);
    take(two);
    return one->standing().partitions > 0 && two.standing().partitions > 0;
  });
  EXPECT_EQ(one->standing().partitions + two.standing().partitions, 3);
  one.reset();
  testing::wait_until([&] {
    take(two);
    return two.standing().partitions == 3 && two.standing().is_at_end;
  });
  EXPECT_EQ(seen.size(), 15);
}

// One of two has nothing to read, which is not the same as not being there.
TEST_F(Kafka, AMemberWithoutPartitionsHasJoined) {
  cluster_.make_topic("one", 1);
  Consumer one(address("one"), "group");
  EXPECT_FALSE(one.standing().has_joined);
  Consumer two(address("one"), "group");
  testing::wait_until([&] {
    one.poll(1, milliseconds{50});
    two.poll(1, milliseconds{50});
    return one.standing().has_joined && two.standing().has_joined &&
           one.standing().partitions + two.standing().partitions == 1;
  });
}

TEST_F(Kafka, AnIdempotentProducerIsSentOnce) {
  Producer producer(address());
  cluster_.fail(0, 3, RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION);
  for (int i = 0; i < 1000; ++i) producer.send(fmt::format("k{}", i), fmt::format("v{}", i));
  producer.send("empty", "");
  producer.flush();
  std::set<std::string> keys;
  const auto all = cluster_.read("reviews", 3);
  for (const auto& message : all) keys.insert(message.key);
  EXPECT_EQ(all.size(), 1001);
  EXPECT_EQ(keys.size(), 1001);
}

TEST_F(Kafka, ATopicThatIsNotThereIsNamed) {
  cluster_.set_error("none", RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART);
  const std::string name = address("none").name();
  EXPECT_TRUE(error_of<InputError>([&] {
                Consumer(address("none"), "group");
              }).starts_with(name + ": there is no topic 'none': expected one of "));
  cluster_.set_error("none", RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED);
  EXPECT_EQ(error_of<InputError>([&] { Producer(address("none")); }),
            name + ": the topic: Broker: Topic authorization failed");
}

TEST_F(Kafka, BrokersThatAreDownAreNamed) {
  const testing::Variable timeout("SULLAE_KAFKA_TIMEOUT", "1");
  cluster_.set_down();
  const auto message = error_of([&] { Consumer(address(), "group"); });
  EXPECT_TRUE(contains(message, address().name() + ": no broker has answered within 1 s "
                                                   "(SULLAE_KAFKA_TIMEOUT)"))
      << message;
  EXPECT_TRUE(contains(message, "Connect")) << message;
}

TEST_F(Kafka, WhatASinkDoesNotTakeIsAnError) {
  const testing::Variable timeout("SULLAE_KAFKA_TIMEOUT", "1");
  Producer producer(address());
  cluster_.set_down();
  producer.send("k", "v");
  const auto message = error_of([&] { producer.flush(); });
  EXPECT_TRUE(contains(message, "1 messages were not taken: Local: Message timed out: "))
      << message;
}

TEST_F(Kafka, AConsumerGoesOnWhenBrokersComeBack) {
  put(0, 2);
  Consumer consumer(address(), "group");
  EXPECT_EQ(read_to_end(consumer).size(), 2);
  cluster_.set_down();
  EXPECT_TRUE(consumer.poll(10, milliseconds{300}).empty());
  cluster_.set_up();
  put(0, 1);
  std::size_t more = 0;
  testing::wait_until([&] {
    more += consumer.poll(10, milliseconds{200}).size();
    return more > 0;
  });
  consumer.commit();
}

// Whoever is told to end while brokers are away, ends.
TEST_F(Kafka, AConsumerLeavesBrokersThatAreAway) {
  put(0, 2);
  {
    Consumer consumer(address(), "group");
    EXPECT_EQ(read_to_end(consumer).size(), 2);
    cluster_.set_down();
    EXPECT_TRUE(consumer.poll(10, milliseconds{300}).empty());
  }
  cluster_.set_up();
}

TEST_F(Kafka, PropertiesThatAreNoneAreNamed) {
  const testing::TemporaryDirectory directory;
  const auto file = directory.path() / "client.properties";
  const testing::Variable config("SULLAE_KAFKA_CONFIG", file.c_str());
  write_file(file, "sasl.pasword=x\n");
  EXPECT_EQ(error_of<InputError>([&] { Consumer(address(), "group"); }),
            file.string() + ": No such configuration property: \"sasl.pasword\"");
}

// The mock cluster keeps 5 MB a partition.
TEST_F(Kafka, WhatIsGoneBeforeItWasReadIsNotPassedOver) {
  put(0, 1);
  {
    Consumer consumer(address(), "group");
    EXPECT_EQ(read_to_end(consumer).size(), 1);
    consumer.commit();
  }
  for (int i = 0; i < 12; ++i) {
    cluster_.put("reviews", 0, "", std::string(900'000, 'x'));
    cluster_.flush();
  }
  Consumer consumer(address(), "group");
  const auto message = error_of<InputError>([&] { read_to_end(consumer); });
  EXPECT_TRUE(contains(message,
                       "partition 0: what group 'group' has not read yet is gone (it is at "
                       "offset 1, and the topic has "))
      << message;
}

TEST_F(Kafka, AGroupThatIsBehindTheEndHasReadAnotherTopic) {
  put(0, 3);
  commit_window(parse_address(cluster_.address("reviews?0=2-50")), "group");
  Consumer consumer(address(), "group");
  const auto message = error_of<InputError>([&] { read_to_end(consumer); });
  EXPECT_TRUE(contains(message,
                       "partition 0: group 'group' has read what the topic does not have (it is at "
                       "offset 50, and the topic has 0 to 3): was it made anew?"))
      << message;
}

// As brokers say that have just started.
TEST_F(Kafka, ATopicThatIsUnknownForAMomentIsWaitedFor) {
  look_for_topics_often();
  put(0, 2);
  Consumer consumer(address(), "group");
  EXPECT_EQ(read_to_end(consumer).size(), 2);
  consumer.commit();
  cluster_.set_error("reviews", RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART);
  testing::wait_until([&] {
    EXPECT_TRUE(consumer.poll(10, milliseconds{200}).empty());
    return consumer.standing().partitions == 0;
  });
  cluster_.set_error("reviews", RD_KAFKA_RESP_ERR_NO_ERROR);
  put(0, 1);
  EXPECT_EQ(read_to_end(consumer).size(), 1);
}

TEST_F(Kafka, ATopicThatStaysUnknownIsNamed) {
  const testing::Variable timeout("SULLAE_KAFKA_TIMEOUT", "2");
  look_for_topics_often();
  Consumer consumer(address(), "group");
  EXPECT_TRUE(read_to_end(consumer).empty());
  cluster_.set_error("reviews", RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART);
  const auto message = error_of([&] {
    testing::wait_until([&] {
      consumer.poll(10, milliseconds{200});
      return false;
    });
  });
  EXPECT_EQ(message,
            address().name() + ": no broker has known the topic within 2 s (SULLAE_KAFKA_TIMEOUT)");
}

TEST_F(Kafka, OffsetsThatAreNotTakenAreAnError) {
  put(0, 1);
  Consumer consumer(address(), "group");
  EXPECT_EQ(read_to_end(consumer).size(), 1);
  cluster_.fail(8, 1, RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED);
  EXPECT_EQ(error_of([&] { consumer.commit(); }),
            address().name() +
                ": offsets of group 'group' were not committed: Broker: Group authorization "
                "failed");
  cluster_.fail(8, 2, RD_KAFKA_RESP_ERR_NOT_COORDINATOR);
  consumer.commit();
}

}  // namespace
}  // namespace sullae::kafka
