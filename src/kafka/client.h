// What consumers and producers of librdkafka have in common.
#pragma once

#include <librdkafka/rdkafka.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "kafka/address.h"
#include "kafka/ends.h"
#include "kafka/settings.h"
#include "kafka/stall.h"

namespace sullae::kafka {

template <auto destroy>
struct Destroy {
  template <class Handle>
  void operator()(Handle* handle) const {
    destroy(handle);
  }
};
using Configuration = std::unique_ptr<rd_kafka_conf_t, Destroy<&rd_kafka_conf_destroy>>;
using Partitions = std::unique_ptr<rd_kafka_topic_partition_list_t,
                                   Destroy<&rd_kafka_topic_partition_list_destroy>>;

inline int milliseconds(std::chrono::milliseconds time) { return static_cast<int>(time.count()); }

/// Of `topic` those in `offsets`, with them.
Partitions make_partitions(const std::string& topic,
                           const std::vector<std::pair<std::int32_t, std::int64_t>>& offsets);

/// A client of a cluster. Callbacks of librdkafka get a Client* as their opaque. Any thread.
class Client {
 public:
  enum class Kind { consumer, producer };

  /// `own`: properties that the file of the settings cannot change; `configure` sets callbacks;
  /// where `is_to_end`, waits end with an Error. Throws InputError.
  Client(Kind kind, const Address& address, const Properties& own,
         void (*configure)(rd_kafka_conf_t*) = nullptr, IsToEnd is_to_end = {});
  /// Gives up after a while where librdkafka does not end.
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  rd_kafka_t* get() const { return handle_; }
  const Address& address() const { return address_; }
  Deadline deadline() const { return {settings_.timeout, "SULLAE_KAFKA_TIMEOUT"}; }

  /// Makes a request, which is told how long it may take, until it succeeds. Throws Error: `what`,
  /// and why, where it will not, or has not by the end of SULLAE_KAFKA_TIMEOUT.
  void ask(const std::string& what,
           const std::function<rd_kafka_resp_err_t(std::chrono::milliseconds)>& request) const;

  /// Between two tries: says after ten seconds that it waits, and why. Throws Error where the
  /// program is to end.
  void be_patient(Stall& stall) const;

  /// Whether a broker does, within a second.
  bool answers() const;

  /// ": Connection refused …", what went wrong last between here and a broker; empty where nothing
  /// did.
  std::string last_problem() const;
  /// Whether it may be otherwise in a moment.
  static bool is_retryable(rd_kafka_resp_err_t error);
  /// "kafka://…: what: why", with the last problem where the error alone does not say.
  std::string describe(const std::string& what, rd_kafka_resp_err_t error) const;

  /// Of the group, into `partitions`. The first error that there is, also of one of them.
  rd_kafka_resp_err_t committed(rd_kafka_topic_partition_list_t* partitions,
                                std::chrono::milliseconds limit) const;

  /// The offsets that a partition has now. Throws Error.
  Range kept(std::int32_t partition) const;

  /// The topic's, from 0 on. Waits for brokers, and a moment for a topic that is being made. Throws
  /// InputError for a topic that is not there, or may not be seen, and Error.
  std::int32_t count_partitions() const;

 private:
  static void note_log(const rd_kafka_t* handle, int level, const char* facility, const char* text);
  std::string all_topics() const;

  Address address_;
  Settings settings_;
  IsToEnd is_to_end_;
  rd_kafka_t* handle_ = nullptr;
  mutable std::mutex mutex_;
  std::string problem_;  // guarded by mutex_
};

}  // namespace sullae::kafka
