#include "kafka/consumer.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/log.h"
#include "kafka/client.h"
#include "kafka/received.h"
#include "kafka/stall.h"
#include "sullae/error.h"

namespace sullae::kafka {

class Consumer::Impl : private Client {
 public:
  Impl(const Address& from, const std::string& group, IsToEnd is_to_end)
      : Client(
            Kind::consumer, from,
            {{"group.id", group},
             {"enable.auto.commit", "false"},
             {"enable.partition.eof", "true"},
             // What is gone is not to be passed over in silence.
             {"auto.offset.reset", "error"},
             {"partition.assignment.strategy", "range,roundrobin"}},
            [](rd_kafka_conf_t* conf) {
              rd_kafka_conf_set_rebalance_cb(conf, &rebalance);
              rd_kafka_conf_set_error_cb(conf, &note_error);
            },
            std::move(is_to_end)),
        group_(group),
        stall_(from.name()) {
    rd_kafka_poll_set_consumer(get());
    count_partitions();
    const auto topics =
        make_partitions(address().topic, {{RD_KAFKA_PARTITION_UA, RD_KAFKA_OFFSET_INVALID}});
    if (const auto error = rd_kafka_subscribe(get(), topics.get()))
      throw Error(describe("it cannot be subscribed to", error));
  }
  ~Impl() { rd_kafka_consumer_close(get()); }

  std::vector<Message> poll(std::size_t most, std::chrono::milliseconds limit) {
    const auto until = Clock::now() + limit;
    batch_.clear();
    while (batch_.size() < most) {
      const auto wait = batch_.empty() ? until - Clock::now() : Clock::duration::zero();
      const bool has_come = take(std::chrono::ceil<std::chrono::milliseconds>(wait));
      if (!has_come && (!batch_.empty() || Clock::now() >= until)) break;
      // Who waits for that is to know.
      if (std::exchange(is_end_new_, false) && batch_.empty()) break;
    }
    if (batch_.empty()) {
      stall_.check([this] { return why_it_stands(); });
      if (missing_ && missing_->passed())
        throw Error(fmt::format("{}: no broker has known the topic {}", address().name(),
                                missing_->describe()));
    } else {
      stall_.goes_on();
      missing_.reset();
      are_down_ = false;
    }
    for (const Message& message : batch_) {
      next_[message.partition] = message.offset + 1;
      // An end that came with it may be behind marks of transactions.
      auto& position = assigned_[message.partition];
      position = std::max(position, message.offset + 1);
    }
    return std::exchange(batch_, {});
  }

  void commit() {
    if (next_.empty()) return;
    const auto offsets = make_partitions(address().topic, {next_.begin(), next_.end()});
    ask(fmt::format("offsets of group '{}' were not committed", group_),
        [&](std::chrono::milliseconds) {
          const auto error = rd_kafka_commit(get(), offsets.get(), 0);
          if (!are_others(error)) return error;
          log::info("{}: partitions are being divided anew: what was just done may be done again",
                    address().name());
          return RD_KAFKA_RESP_ERR_NO_ERROR;
        });
    next_.clear();
  }

  Standing standing() const {
    Standing standing{.partitions = static_cast<int>(assigned_.size())};
    standing.has_joined = has_joined_;
    standing.has_begun = has_begun_;
    standing.is_at_end = !assigned_.empty() && at_end_.size() == assigned_.size();
    for (const auto& [partition, position] : assigned_) {
      std::int64_t low = 0;
      std::int64_t high = 0;
      const bool is_known = rd_kafka_get_watermark_offsets(get(), address().topic.c_str(),
                                                           partition, &low, &high) == 0;
      if (is_known && high >= 0)
        standing.lag += std::max<std::int64_t>(0, high - std::max(position, low));
    }
    return standing;
  }

 private:
  // False where nothing came.
  bool take(std::chrono::milliseconds limit) {
    Received received(rd_kafka_consumer_poll(get(), milliseconds(std::max(limit, {}))));
    if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
    if (!received) return false;
    if (received->err == RD_KAFKA_RESP_ERR_NO_ERROR) {
      batch_.push_back(to_message(std::move(received)));
    } else {
      meet(*received);
    }
    return true;
  }

  void meet(const rd_kafka_message_t& event) {
    if (event.err == RD_KAFKA_RESP_ERR__PARTITION_EOF) {
      are_down_ = false;
      at_end_.insert(event.partition);
      // Marks of transactions are behind the last message, too.
      assigned_[event.partition] = event.offset;
      is_end_new_ = standing().is_at_end;
    } else if (event.err == RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET) {
      fail_reset(event);
    } else if (event.err == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART) {
      // Brokers that have just come back know it in a moment. It is said once.
      if (!missing_) missing_.emplace(deadline());
    } else if (event.err == RD_KAFKA_RESP_ERR__MAX_POLL_EXCEEDED) {
      log::warning("{}: {}", address().name(), rd_kafka_message_errstr(&event));
    } else if (!is_retryable(event.err)) {
      throw Error(fmt::format("{}: {}", address().name(), rd_kafka_message_errstr(&event)));
    }
  }

  // There is no message at the offset where a partition is to be read.
  [[noreturn]] void fail_reset(const rd_kafka_message_t& event) const {
    const auto partition = fmt::format("{}: partition {}", address().name(), event.partition);
    if (event.offset < 0)  // it was asked for the beginning
      throw Error(fmt::format("{}: where it begins is not known: {}", partition,
                              rd_kafka_message_errstr(&event)));
    const Range there = kept(event.partition);
    const auto places = fmt::format("it is at offset {}, and the topic has {} to {}", event.offset,
                                    there.begin, there.end);
    if (event.offset < there.begin)
      throw InputError(fmt::format(
          "{}: what group '{}' has not read yet is gone ({}): the topic keeps too little; set the "
          "group's offsets (kafka-consumer-groups --reset-offsets) to go on from what is left",
          partition, group_, places));
    throw InputError(fmt::format(
        "{}: group '{}' has read what the topic does not have ({}): was it made anew? Give a group "
        "of another name, or set its offsets (kafka-consumer-groups --reset-offsets)",
        partition, group_, places));
  }

  // Somebody else has the partitions, or will.
  static bool are_others(rd_kafka_resp_err_t error) {
    return error == RD_KAFKA_RESP_ERR_ILLEGAL_GENERATION ||
           error == RD_KAFKA_RESP_ERR_UNKNOWN_MEMBER_ID ||
           error == RD_KAFKA_RESP_ERR_REBALANCE_IN_PROGRESS;
  }

  std::string why_it_stands() {
    // An idle topic does not say that they are back.
    are_down_ = are_down_ && !answers();
    if (are_down_) return fmt::format("no broker answers{}", last_problem());
    const Standing now = standing();
    if (now.is_at_end && now.lag == 0)
      return fmt::format("all {} partitions were read to their ends", now.partitions);
    if (missing_) return fmt::format("no broker knows the topic{}", last_problem());
    if (now.partitions == 0)
      return fmt::format("group '{}' has given no partition to this member{}", group_,
                         last_problem());
    return fmt::format("{} messages are there{}", now.lag, last_problem());
  }

  static void note_error(rd_kafka_t*, int error, const char*, void* opaque) {
    auto* const self = static_cast<Impl*>(static_cast<Client*>(opaque));
    if (error == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN) self->are_down_ = true;
  }

  static void rebalance(rd_kafka_t*, rd_kafka_resp_err_t event,
                        rd_kafka_topic_partition_list_t* partitions, void* opaque) {
    auto* const self = static_cast<Impl*>(static_cast<Client*>(opaque));
    // Whoever has them now gets all again that was not committed.
    self->batch_.clear();
    self->next_.clear();
    self->assigned_.clear();
    self->at_end_.clear();
    self->has_joined_ = event == RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS;
    if (self->has_joined_) self->are_down_ = false;
    if (!self->has_joined_) {
      rd_kafka_assign(self->get(), nullptr);
      return;
    }
    try {
      if (partitions->cnt > 0) self->missing_.reset();
      self->begin(partitions);
      rd_kafka_assign(self->get(), partitions);
    } catch (const Error&) {
      self->failure_ = std::current_exception();
      rd_kafka_assign(self->get(), nullptr);
    }
  }

  void begin(rd_kafka_topic_partition_list_t* partitions) {
    ask(fmt::format("where group '{}' is, is not known", group_),
        [&](std::chrono::milliseconds limit) { return committed(partitions, limit); });
    for (int i = 0; i < partitions->cnt; ++i) {
      auto& one = partitions->elems[i];
      if (one.offset < 0) {
        one.offset = RD_KAFKA_OFFSET_BEGINNING;
      } else {
        has_begun_ = true;
      }
      assigned_[one.partition] = std::max<std::int64_t>(0, one.offset);
    }
  }

  std::string group_;
  Stall stall_;
  bool are_down_ = false;  // all brokers, as far as is known
  std::vector<Message> batch_;
  std::map<std::int32_t, std::int64_t> assigned_;  // what follows what was got, by partition
  std::map<std::int32_t, std::int64_t> next_;      // the same, of what is not committed
  std::set<std::int32_t> at_end_;
  bool is_end_new_ = false;
  bool has_joined_ = false;
  bool has_begun_ = false;
  std::optional<Deadline> missing_;  // while no broker knows the topic
  std::exception_ptr failure_;       // of a callback
};

Consumer::Consumer(const Address& from, const std::string& group, IsToEnd is_to_end)
    : impl_(std::make_unique<Impl>(from, group, std::move(is_to_end))) {}
Consumer::~Consumer() = default;

std::vector<Message> Consumer::poll(std::size_t most, std::chrono::milliseconds limit) {
  return impl_->poll(most, limit);
}
void Consumer::commit() { impl_->commit(); }
Standing Consumer::standing() const { return impl_->standing(); }

}  // namespace sullae::kafka
