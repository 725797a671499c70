#include "kafka/producer.h"

#include <fmt/format.h>

#include <cstddef>
#include <optional>
#include <utility>

#include "kafka/client.h"
#include "sullae/error.h"

namespace sullae::kafka {

class Producer::Impl : private Client {
 public:
  Impl(const Address& to, IsToEnd is_to_end)
      : Client(
            Kind::producer, to,
            {{"enable.idempotence", "true"},
             {"acks", "all"},
             {"message.timeout.ms",
              std::to_string(read_settings(process_environment()).timeout.count())}},
            [](rd_kafka_conf_t* conf) { rd_kafka_conf_set_dr_msg_cb(conf, &delivered); },
            std::move(is_to_end)) {
    count_partitions();
    topic_.reset(rd_kafka_topic_new(get(), address().topic.c_str(), nullptr));
  }

  void send(std::string_view key, std::string_view value) {
    std::optional<Stall> stall;
    for (;;) {
      const int result = rd_kafka_produce(topic_.get(), RD_KAFKA_PARTITION_UA, RD_KAFKA_MSG_F_COPY,
                                          const_cast<char*>(value.data()), value.size(), key.data(),
                                          key.size(), nullptr);
      if (result == 0) break;
      const auto error = rd_kafka_last_error();
      if (error != RD_KAFKA_RESP_ERR__QUEUE_FULL)
        throw Error(
            describe(fmt::format("a message of {} bytes was not sent", value.size()), error));
      constexpr int kMilliseconds = 100;
      poll(kMilliseconds);
      if (!stall) stall.emplace(address().name(), kNotTaken);
      be_patient(*stall);
    }
    poll(0);
  }

  void flush() {
    constexpr int kMilliseconds = 200;
    // Each message has a timeout (message.timeout.ms), and is refused then.
    Stall stall(address().name(), kNotTaken);
    for (int left = rd_kafka_outq_len(get()); left > 0;) {
      rd_kafka_flush(get(), kMilliseconds);
      check();
      const int before = std::exchange(left, rd_kafka_outq_len(get()));
      if (left < before)
        stall.goes_on();
      else
        be_patient(stall);
    }
    check();
  }

 private:
  static constexpr const char* kNotTaken = "no message was taken";

  void poll(int wait) {
    rd_kafka_poll(get(), wait);
    check();
  }

  void check() {
    if (refused_ == 0) return;
    throw Error(describe(fmt::format("{} messages were not taken", refused_), error_));
  }

  static void delivered(rd_kafka_t*, const rd_kafka_message_t* message, void* opaque) {
    if (message->err == RD_KAFKA_RESP_ERR_NO_ERROR) return;
    auto* const self = static_cast<Impl*>(static_cast<Client*>(opaque));
    if (self->refused_++ == 0) self->error_ = message->err;
  }

  std::unique_ptr<rd_kafka_topic_t, Destroy<&rd_kafka_topic_destroy>> topic_;
  std::size_t refused_ = 0;
  rd_kafka_resp_err_t error_ = RD_KAFKA_RESP_ERR_NO_ERROR;  // the first
};

Producer::Producer(const Address& to, IsToEnd is_to_end)
    : impl_(std::make_unique<Impl>(to, std::move(is_to_end))) {}
Producer::~Producer() = default;

void Producer::send(std::string_view key, std::string_view value) { impl_->send(key, value); }
void Producer::flush() { impl_->flush(); }

}  // namespace sullae::kafka
