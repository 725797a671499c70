// Brokers of Kafka in this process: librdkafka's mock cluster, which speaks the protocol on sockets
// of this host, for consumer groups and idempotent producers, too. It keeps 5 MB a partition, and
// divides partitions anew when a session may have ended, whoever has come or gone.
#pragma once

#include <gtest/gtest.h>
#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "support/temporary_directory.h"

namespace sullae::testing {

class KafkaCluster {
 public:
  struct Message {
    std::int32_t partition = 0;
    std::int64_t offset = 0;
    std::string key;
    std::optional<std::string> value;
  };

  explicit KafkaCluster(int brokers = 1) {
    std::array<char, 512> why{};
    rd_kafka_conf_t* const conf = rd_kafka_conf_new();
    rd_kafka_conf_set(conf, "log_level", "3", why.data(), why.size());  // it has no brokers itself
    handle_ = rd_kafka_new(RD_KAFKA_PRODUCER, conf, why.data(), why.size());
    cluster_ = rd_kafka_mock_cluster_new(handle_, brokers);
    producer_ = make(RD_KAFKA_PRODUCER, {});
    write_file(config_, "session.timeout.ms=4000\nheartbeat.interval.ms=200\n");
  }
  ~KafkaCluster() {
    rd_kafka_destroy(producer_);
    rd_kafka_mock_cluster_destroy(cluster_);
    rd_kafka_destroy(handle_);
  }
  KafkaCluster(const KafkaCluster&) = delete;
  KafkaCluster& operator=(const KafkaCluster&) = delete;

  /// Sessions as short as tests are, for SULLAE_KAFKA_CONFIG.
  std::string config() const { return config_; }
  std::string brokers() const { return rd_kafka_mock_cluster_bootstraps(cluster_); }
  std::string address(const std::string& topic) const {
    return "kafka://" + brokers() + "/" + topic;
  }
  void make_topic(const std::string& name, int partitions) const {
    EXPECT_EQ(rd_kafka_mock_topic_create(cluster_, name.c_str(), partitions, 1), 0);
  }
  void set_down(int broker = 1) const { rd_kafka_mock_broker_set_down(cluster_, broker); }
  void set_up(int broker = 1) const { rd_kafka_mock_broker_set_up(cluster_, broker); }
  /// What brokers say of a topic.
  void set_error(const std::string& topic, rd_kafka_resp_err_t error) const {
    rd_kafka_mock_topic_set_error(cluster_, topic.c_str(), error);
  }
  /// What the next requests of a kind (the protocol's number: 0 Produce, 8 OffsetCommit …) are
  /// answered.
  void fail(std::int16_t request, std::size_t times, rd_kafka_resp_err_t error) const {
    const std::vector<rd_kafka_resp_err_t> errors(times, error);
    rd_kafka_mock_push_request_errors_array(cluster_, request, errors.size(), errors.data());
  }

  void put(const std::string& topic, std::int32_t partition, const std::string& key,
           const std::optional<std::string>& value) const {
    const void* const key_data = key.empty() ? nullptr : key.data();
    const void* const value_data = value ? value->data() : nullptr;
    const std::size_t value_bytes = value ? value->size() : 0;
    const auto result = rd_kafka_producev(
        producer_, RD_KAFKA_V_TOPIC(topic.c_str()), RD_KAFKA_V_PARTITION(partition),
        RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY), RD_KAFKA_V_KEY(key_data, key.size()),
        RD_KAFKA_V_VALUE(const_cast<void*>(value_data), value_bytes), RD_KAFKA_V_END);
    EXPECT_EQ(result, RD_KAFKA_RESP_ERR_NO_ERROR);
  }
  /// Until the brokers have what was put.
  void flush() const { EXPECT_EQ(rd_kafka_flush(producer_, 60'000), RD_KAFKA_RESP_ERR_NO_ERROR); }

  /// All that is in a topic, partition by partition.
  std::vector<Message> read(const std::string& topic, int partitions) const {
    rd_kafka_t* const consumer = make(RD_KAFKA_CONSUMER, {{"group.id", "reader of the test"},
                                                          {"enable.partition.eof", "true"},
                                                          {"enable.auto.commit", "false"}});
    auto* const list = rd_kafka_topic_partition_list_new(partitions);
    for (int partition = 0; partition < partitions; ++partition)
      rd_kafka_topic_partition_list_add(list, topic.c_str(), partition)->offset =
          RD_KAFKA_OFFSET_BEGINNING;
    rd_kafka_assign(consumer, list);
    rd_kafka_topic_partition_list_destroy(list);
    std::vector<std::vector<Message>> found(static_cast<std::size_t>(partitions));
    for (int open = partitions; open > 0;) {
      rd_kafka_message_t* const got = rd_kafka_consumer_poll(consumer, 1000);
      if (got == nullptr) continue;
      if (got->err == RD_KAFKA_RESP_ERR__PARTITION_EOF) --open;
      if (got->err == RD_KAFKA_RESP_ERR_NO_ERROR) {
        Message message{.partition = got->partition, .offset = got->offset};
        message.key.assign(static_cast<const char*>(got->key), got->key_len);
        if (got->payload != nullptr)
          message.value.emplace(static_cast<const char*>(got->payload), got->len);
        found[static_cast<std::size_t>(got->partition)].push_back(std::move(message));
      }
      rd_kafka_message_destroy(got);
    }
    rd_kafka_consumer_close(consumer);
    rd_kafka_destroy(consumer);
    std::vector<Message> all;
    for (auto& some : found) all.insert(all.end(), some.begin(), some.end());
    return all;
  }

 private:
  rd_kafka_t* make(rd_kafka_type_t type,
                   const std::vector<std::pair<std::string, std::string>>& properties) const {
    rd_kafka_conf_t* const conf = rd_kafka_conf_new();
    std::array<char, 512> why{};
    rd_kafka_conf_set(conf, "bootstrap.servers", brokers().c_str(), why.data(), why.size());
    for (const auto& [name, value] : properties)
      rd_kafka_conf_set(conf, name.c_str(), value.c_str(), why.data(), why.size());
    return rd_kafka_new(type, conf, why.data(), why.size());
  }

  TemporaryDirectory directory_;
  std::filesystem::path config_ = directory_.path() / "client.properties";
  rd_kafka_t* handle_;
  rd_kafka_mock_cluster_t* cluster_;
  rd_kafka_t* producer_;
};

}  // namespace sullae::testing
