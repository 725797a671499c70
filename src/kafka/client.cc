#include "kafka/client.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <future>
#include <thread>

#include "base/log.h"
#include "sullae/error.h"

namespace sullae::kafka {

Partitions make_partitions(const std::string& topic,
                           const std::vector<std::pair<std::int32_t, std::int64_t>>& offsets) {
  Partitions partitions(rd_kafka_topic_partition_list_new(static_cast<int>(offsets.size())));
  for (const auto& [partition, offset] : offsets)
    rd_kafka_topic_partition_list_add(partitions.get(), topic.c_str(), partition)->offset = offset;
  return partitions;
}

Client::Client(Kind kind, const Address& address, const Properties& own,
               void (*configure)(rd_kafka_conf_t*), IsToEnd is_to_end)
    : address_(address),
      settings_(read_settings(process_environment())),
      is_to_end_(std::move(is_to_end)) {
  Configuration configuration(rd_kafka_conf_new());
  std::array<char, 512> why{};
  const auto set = [&](const std::string& name, const std::string& value,
                       const std::string& where) {
    if (rd_kafka_conf_set(configuration.get(), name.c_str(), value.c_str(), why.data(),
                          why.size()) != RD_KAFKA_CONF_OK)
      throw InputError(fmt::format("{}: {}", where, why.data()));
  };
  set("client.id", "sullae", "client.id");
  // New partitions are seen by then.
  set("topic.metadata.refresh.interval.ms", "30000", "topic.metadata.refresh.interval.ms");
  for (const auto& [name, value] : settings_.properties) set(name, value, settings_.file);
  set("bootstrap.servers", address.brokers, address.name());
  for (const auto& [name, value] : own) set(name, value, address.name());
  rd_kafka_conf_set_log_cb(configuration.get(), &Client::note_log);
  rd_kafka_conf_set_opaque(configuration.get(), this);
  if (configure != nullptr) configure(configuration.get());
  handle_ = rd_kafka_new(kind == Kind::consumer ? RD_KAFKA_CONSUMER : RD_KAFKA_PRODUCER,
                         configuration.get(), why.data(), why.size());
  if (handle_ == nullptr) throw InputError(fmt::format("{}: {}", address.name(), why.data()));
  static_cast<void>(configuration.release());  // it is the handle's
}

// librdkafka waits for itself for ever where a consumer's topic was gone for a moment
// (github.com/confluentinc/librdkafka/issues/4362).
Client::~Client() {
  constexpr std::chrono::seconds kLimit{5};
  // Its lines go to this, and in its configuration, for which this is deprecated, that cannot be
  // changed any more.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  rd_kafka_set_logger(handle_, nullptr);
#pragma GCC diagnostic pop
  std::packaged_task<void()> destroy([handle = handle_] { rd_kafka_destroy(handle); });
  const auto done = destroy.get_future();
  std::thread thread(std::move(destroy));
  if (done.wait_for(kLimit) == std::future_status::ready) {
    thread.join();
  } else {
    log::info("{}: librdkafka does not end, and is left", address_.name());
    thread.detach();
  }
}

// A line of its own that says it all: "[thrd:h:9092/bootstrap]: h:9092/bootstrap: Connect to …
// failed: Connection refused (after …)".
void Client::note_log(const rd_kafka_t* handle, int level, const char* facility, const char* text) {
  constexpr int kWarning = 4;
  if (handle == nullptr || std::string_view(facility) == "CONFWARN") return;
  std::string line = text;
  // Why they are down was said before.
  if (level > kWarning || line.find("brokers are down") != std::string::npos) return;
  if (const auto end = line.find("]: "); line.starts_with('[') && end != std::string::npos)
    line.erase(0, end + 3);
  auto* const client = static_cast<Client*>(rd_kafka_opaque(handle));
  const std::lock_guard lock(client->mutex_);
  client->problem_ = std::move(line);
}

bool Client::answers() const {
  constexpr int kMilliseconds = 1000;
  const rd_kafka_metadata_t* got = nullptr;
  if (rd_kafka_metadata(handle_, 0, nullptr, &got, kMilliseconds) != RD_KAFKA_RESP_ERR_NO_ERROR)
    return false;
  rd_kafka_metadata_destroy(got);
  return true;
}

std::string Client::last_problem() const {
  const std::lock_guard lock(mutex_);
  return problem_.empty() ? "" : ": " + problem_;
}

bool Client::is_retryable(rd_kafka_resp_err_t error) {
  switch (error) {
    case RD_KAFKA_RESP_ERR__TRANSPORT:
    case RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN:
    case RD_KAFKA_RESP_ERR__TIMED_OUT:
    case RD_KAFKA_RESP_ERR__TIMED_OUT_QUEUE:
    case RD_KAFKA_RESP_ERR__RESOLVE:
    case RD_KAFKA_RESP_ERR__WAIT_COORD:
    case RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE:
    case RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION:
    case RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT:
    case RD_KAFKA_RESP_ERR_NETWORK_EXCEPTION:
    case RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS:
    case RD_KAFKA_RESP_ERR_COORDINATOR_NOT_AVAILABLE:
    case RD_KAFKA_RESP_ERR_NOT_COORDINATOR:
      return true;
    default:
      return false;
  }
}

std::string Client::describe(const std::string& what, rd_kafka_resp_err_t error) const {
  std::array<char, 512> fatal{};
  if (error == RD_KAFKA_RESP_ERR__FATAL &&
      rd_kafka_fatal_error(handle_, fatal.data(), fatal.size()) != RD_KAFKA_RESP_ERR_NO_ERROR)
    return fmt::format("{}: {}: {}", address_.name(), what, fatal.data());
  const bool says_nothing = is_retryable(error) || error == RD_KAFKA_RESP_ERR__MSG_TIMED_OUT;
  return fmt::format("{}: {}: {}{}", address_.name(), what, rd_kafka_err2str(error),
                     says_nothing ? last_problem() : "");
}

void Client::ask(
    const std::string& what,
    const std::function<rd_kafka_resp_err_t(std::chrono::milliseconds)>& request) const {
  const Deadline limit = deadline();
  Stall stall(address_.name(), what);
  for (;;) {
    // One that waits hears no signal.
    constexpr std::chrono::milliseconds kAttempt{5000};
    const auto error = request(std::min(limit.remaining(), kAttempt));
    if (error == RD_KAFKA_RESP_ERR_NO_ERROR) return;
    if (!is_retryable(error)) throw Error(describe(what, error));
    if (limit.passed()) throw Error(fmt::format("{} {}", describe(what, error), limit.describe()));
    be_patient(stall);
    std::this_thread::sleep_for(std::chrono::milliseconds{100});
  }
}

void Client::be_patient(Stall& stall) const {
  const auto why = [&] {
    const std::lock_guard lock(mutex_);
    return problem_.empty() ? std::string("brokers say nothing") : problem_;
  };
  // What is under way is not given up for a moment's silence.
  constexpr std::chrono::seconds kGrace{5};
  if (is_to_end_ && stall.lasts() > kGrace && is_to_end_())
    throw Error(
        fmt::format("{}: asked to end while brokers were waited for: {}", address_.name(), why()));
  stall.check(why);
}

rd_kafka_resp_err_t Client::committed(rd_kafka_topic_partition_list_t* partitions,
                                      std::chrono::milliseconds limit) const {
  const auto error = rd_kafka_committed(handle_, partitions, milliseconds(limit));
  if (error != RD_KAFKA_RESP_ERR_NO_ERROR) return error;
  for (int i = 0; i < partitions->cnt; ++i) {
    if (partitions->elems[i].err != RD_KAFKA_RESP_ERR_NO_ERROR) return partitions->elems[i].err;
  }
  return error;
}

Range Client::kept(std::int32_t partition) const {
  Range range;
  ask(fmt::format("partition {}: its ends are not known", partition),
      [&](std::chrono::milliseconds limit) {
        const auto error =
            rd_kafka_query_watermark_offsets(handle_, address_.topic.c_str(), partition,
                                             &range.begin, &range.end, milliseconds(limit));
        // So librdkafka 2.0 calls a request that failed.
        return error == RD_KAFKA_RESP_ERR__BAD_MSG ? RD_KAFKA_RESP_ERR__TRANSPORT : error;
      });
  return range;
}

std::int32_t Client::count_partitions() const {
  const std::unique_ptr<rd_kafka_topic_t, Destroy<&rd_kafka_topic_destroy>> topic(
      rd_kafka_topic_new(handle_, address_.topic.c_str(), nullptr));
  const Deadline limit = deadline();
  // What makes topics when they are asked for takes a moment.
  constexpr std::chrono::seconds kMaking{5};
  const auto start = Clock::now();
  Stall stall(address_.name(), "no broker has answered");
  for (;;) {
    constexpr std::chrono::milliseconds kAttempt{2000};
    const rd_kafka_metadata_t* got = nullptr;
    auto error = rd_kafka_metadata(handle_, 0, topic.get(), &got,
                                   milliseconds(std::min(limit.remaining(), kAttempt)));
    const std::unique_ptr<const rd_kafka_metadata_t, Destroy<&rd_kafka_metadata_destroy>> metadata(
        got);
    if (error == RD_KAFKA_RESP_ERR_NO_ERROR && metadata->topic_cnt == 1) {
      error = metadata->topics[0].err;
      if (error == RD_KAFKA_RESP_ERR_NO_ERROR) return metadata->topics[0].partition_cnt;
    }
    const bool is_missing = error == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART ||
                            error == RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC;
    if (is_missing && Clock::now() - start > kMaking)
      throw InputError(fmt::format("{}: there is no topic '{}': expected {}", address_.name(),
                                   address_.topic, all_topics()));
    if (!is_missing && !is_retryable(error)) throw InputError(describe("the topic", error));
    if (limit.passed())
      throw Error(fmt::format("{}: no broker has answered {}{}", address_.name(), limit.describe(),
                              last_problem()));
    be_patient(stall);
    std::this_thread::sleep_for(std::chrono::milliseconds{100});
  }
}

std::string Client::all_topics() const {
  constexpr int kMilliseconds = 5000;
  constexpr std::size_t kNamed = 20;
  const rd_kafka_metadata_t* got = nullptr;
  if (rd_kafka_metadata(handle_, 1, nullptr, &got, kMilliseconds) != RD_KAFKA_RESP_ERR_NO_ERROR)
    return "one that is there";
  const std::unique_ptr<const rd_kafka_metadata_t, Destroy<&rd_kafka_metadata_destroy>> metadata(
      got);
  std::vector<std::string> names;
  for (int i = 0; i < metadata->topic_cnt; ++i) {
    const std::string name = metadata->topics[i].topic;
    if (!name.starts_with("__")) names.push_back(name);
  }
  std::ranges::sort(names);
  if (names.empty()) return "one that is there, and there are none";
  const bool are_more = names.size() > kNamed;
  if (are_more) names.resize(kNamed);
  return fmt::format("one of {}{}", fmt::join(names, ", "), are_more ? ", …" : "");
}

}  // namespace sullae::kafka
