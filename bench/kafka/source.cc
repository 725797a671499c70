// Messages of a topic, as fast as they come: by our consumer, by librdkafka alone, and as a window;
// and the brokers for it.
#include <fmt/format.h>
#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "kafka/consumer.h"
#include "kafka/window.h"

namespace {

using namespace sullae::kafka;
using Clock = std::chrono::steady_clock;

constexpr const char* kTopic = "messages";

rd_kafka_t* make(rd_kafka_type_t type, const std::string& brokers) {
  rd_kafka_conf_t* const conf = rd_kafka_conf_new();
  std::array<char, 512> why{};
  if (!brokers.empty())
    rd_kafka_conf_set(conf, "bootstrap.servers", brokers.c_str(), why.data(), why.size());
  for (const auto& [name, value] :
       {std::pair{"group.id", "raw"}, {"enable.partition.eof", "true"}}) {
    if (type == RD_KAFKA_CONSUMER) rd_kafka_conf_set(conf, name, value, why.data(), why.size());
  }
  return rd_kafka_new(type, conf, why.data(), why.size());
}

// librdkafka's mock cluster, which keeps 5 MB a partition, until the standard input ends.
int serve(int partitions, int each, std::size_t bytes) {
  rd_kafka_t* const handle = make(RD_KAFKA_PRODUCER, "");
  rd_kafka_mock_cluster_t* const cluster = rd_kafka_mock_cluster_new(handle, 1);
  rd_kafka_mock_topic_create(cluster, kTopic, partitions, 1);
  rd_kafka_t* const producer = make(RD_KAFKA_PRODUCER, rd_kafka_mock_cluster_bootstraps(cluster));
  std::string value(bytes, 'x');
  for (int i = 0; i < each; ++i) {
    for (int partition = 0; partition < partitions; ++partition) {
      while (rd_kafka_producev(producer, RD_KAFKA_V_TOPIC(kTopic), RD_KAFKA_V_PARTITION(partition),
                               RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY),
                               RD_KAFKA_V_VALUE(value.data(), value.size()),
                               RD_KAFKA_V_END) != RD_KAFKA_RESP_ERR_NO_ERROR)
        rd_kafka_poll(producer, 10);
    }
  }
  rd_kafka_flush(producer, 60'000);
  fmt::print("{{\"brokers\": \"{}\"}}\n", rd_kafka_mock_cluster_bootstraps(cluster));
  std::fflush(stdout);
  while (std::getchar() != EOF) continue;
  std::_Exit(0);
}

struct Count {
  std::size_t messages = 0;
  std::size_t bytes = 0;
  Clock::time_point start;

  void add(std::size_t size) {
    if (messages++ == 0) start = Clock::now();
    bytes += size;
  }
  int print() const {
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    fmt::print("{{\"messages_per_second\": {}, \"messages\": {}, \"bytes\": {}}}\n",
               static_cast<double>(messages) / seconds, messages, bytes);
    return 0;
  }
};

int ours(const Address& address, std::size_t count) {
  constexpr std::size_t kTogether = 1000;
  Consumer consumer(address, "ours");
  Count counted;
  while (counted.messages < count) {
    for (const auto& message : consumer.poll(kTogether, std::chrono::seconds{1}))
      counted.add(message.value->size());
  }
  return counted.print();
}

int window(Address address) {
  address.window = find_window(address, "");
  Count counted;
  fetch_window(address, [&](const Message& message) { counted.add(message.value->size()); });
  return counted.print();
}

// librdkafka, a message after the other.
int raw(const Address& address, std::size_t count, int partitions) {
  rd_kafka_t* const consumer = make(RD_KAFKA_CONSUMER, address.brokers);
  rd_kafka_poll_set_consumer(consumer);
  auto* const list = rd_kafka_topic_partition_list_new(partitions);
  for (int partition = 0; partition < partitions; ++partition)
    rd_kafka_topic_partition_list_add(list, kTopic, partition)->offset = RD_KAFKA_OFFSET_BEGINNING;
  rd_kafka_assign(consumer, list);
  Count counted;
  while (counted.messages < count) {
    rd_kafka_message_t* const message = rd_kafka_consumer_poll(consumer, 1000);
    if (message == nullptr) continue;
    if (message->err == RD_KAFKA_RESP_ERR_NO_ERROR) counted.add(message->len);
    rd_kafka_message_destroy(message);
  }
  counted.print();
  std::fflush(stdout);
  std::_Exit(0);
}

}  // namespace

int main(int count, char** words) {
  const std::string what = count > 1 ? words[1] : "";
  const auto number = [&](int i) {
    return std::atoi(words[i]);
  };
  if (what == "serve" && count == 5)
    return serve(number(2), number(3), static_cast<std::size_t>(number(4)));
  const auto address = [&] {
    return parse_address(fmt::format("kafka://{}/{}", words[2], kTopic));
  };
  if (what == "ours" && count == 4) return ours(address(), static_cast<std::size_t>(number(3)));
  if (what == "window" && count == 3) return window(address());
  if (what == "raw" && count == 5)
    return raw(address(), static_cast<std::size_t>(number(3)), number(4));
  fmt::print(
      stderr,
      "usage: bench_kafka serve PARTITIONS EACH BYTES | ours BROKERS COUNT | window BROKERS | "
      "raw BROKERS COUNT PARTITIONS\n");
  return 2;
}
