#include "kafka/window.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "kafka/client.h"
#include "kafka/received.h"
#include "kafka/stall.h"
#include "sullae/error.h"

namespace sullae::kafka {
namespace {

using Offsets = std::vector<std::pair<std::int32_t, std::int64_t>>;

[[noreturn]] void fail_gone(const Address& address, std::int32_t partition, std::int64_t wanted,
                            const Range& kept) {
  throw InputError(fmt::format(
      "{}: partition {}: offset {} is not there: the topic has {} to {}, expected messages that "
      "are kept until they are read (retention.ms, retention.bytes)",
      address.name(), partition, wanted, kept.begin, kept.end));
}

Offsets ends_of(const Address& address) {
  Offsets ends;
  for (const auto& [partition, range] : address.window) ends.emplace_back(partition, range.end);
  return ends;
}

Properties properties_of(const std::string& group) {
  // librdkafka wants a name even of who is member of no group.
  return {{"group.id", group.empty() ? "sullae" : group},
          {"enable.auto.commit", "false"},
          {"enable.partition.eof", "true"},
          {"auto.offset.reset", "error"}};
}

class Reader : private Client {
 public:
  explicit Reader(const Address& address, const std::string& group)
      : Client(Kind::consumer, address, properties_of(group)), stall_(address.name()) {
    rd_kafka_poll_set_consumer(get());
  }
  ~Reader() { rd_kafka_consumer_close(get()); }

  std::int32_t count() const { return count_partitions(); }

  using Client::kept;

  /// By partition; negative where there is none.
  Offsets committed(const Offsets& partitions) const {
    const auto list = make_partitions(address().topic, partitions);
    ask("where the group is, is not known",
        [&](std::chrono::milliseconds limit) { return Client::committed(list.get(), limit); });
    Offsets offsets;
    for (int i = 0; i < list->cnt; ++i)
      offsets.emplace_back(list->elems[i].partition, list->elems[i].offset);
    return offsets;
  }

  void commit(const Offsets& offsets) {
    const auto list = make_partitions(address().topic, offsets);
    ask("offsets were not committed",
        [&](std::chrono::milliseconds) { return rd_kafka_commit(get(), list.get(), 0); });
  }

  void read(const std::function<void(const Message&)>& act) {
    Offsets begins;
    for (const auto& [partition, range] : address().window) {
      const Range there = kept(partition);
      if (range.begin < there.begin) fail_gone(address(), partition, range.begin, there);
      if (range.end > there.end) fail_gone(address(), partition, range.end - 1, there);
      if (range.begin < range.end) begins.emplace_back(partition, range.begin);
    }
    for (const auto& [partition, offset] : begins) open_.insert(partition);
    if (const auto error = rd_kafka_assign(get(), make_partitions(address().topic, begins).get()))
      throw Error(describe("it cannot be read", error));
    Deadline limit = deadline();
    while (!open_.empty()) {
      constexpr int kMilliseconds = 200;
      Received received(rd_kafka_consumer_poll(get(), kMilliseconds));
      if (received) {
        take(std::move(received), act);
        stall_.goes_on();
        limit = deadline();
        continue;
      }
      const auto why = [&] {
        return fmt::format("{} partitions are not whole{}", open_.size(), last_problem());
      };
      stall_.check(why);
      if (limit.passed())
        throw Error(
            fmt::format("{}: nothing has come {}: {}", address().name(), limit.describe(), why()));
    }
  }

 private:
  void take(Received received, const std::function<void(const Message&)>& act) {
    const auto error = received->err;
    const bool is_end = error == RD_KAFKA_RESP_ERR__PARTITION_EOF;
    if (error != RD_KAFKA_RESP_ERR_NO_ERROR && !is_end) {
      // Who is member of no group need not be allowed one.
      if (is_retryable(error) || error == RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED) return;
      throw Error(fmt::format("{}: partition {}: {}", address().name(), received->partition,
                              rd_kafka_message_errstr(received.get())));
    }
    const std::int32_t partition = received->partition;
    if (!open_.contains(partition)) return;
    const std::int64_t offset = received->offset;
    const std::int64_t end = address().window.at(partition).end;
    // The last of a window may be none that anybody gets, and another comes instead, or the end of
    // all.
    if (!is_end && offset < end) act(to_message(std::move(received)));
    if (offset < end - (is_end ? 0 : 1)) return;
    open_.erase(partition);
    rd_kafka_pause_partitions(get(), make_partitions(address().topic, {{partition, offset}}).get());
  }

  Stall stall_;
  std::set<std::int32_t> open_;  // partitions that are not whole yet
};

}  // namespace

Window find_window(const Address& topic, const std::string& group) {
  const Reader reader(topic, group);
  Window window;
  Offsets all;
  const std::int32_t count = reader.count();
  for (std::int32_t partition = 0; partition < count; ++partition) all.emplace_back(partition, 0);
  // Before the ends, which another one of the group may reach meanwhile.
  const Offsets done = group.empty() ? Offsets() : reader.committed(all);
  for (const auto& [partition, offset] : all) window[partition] = reader.kept(partition);
  for (const auto& [partition, offset] : done) {
    Range& range = window.at(partition);
    if (offset < 0) continue;
    // Also of a topic that was made anew.
    if (offset < range.begin || offset > range.end) fail_gone(topic, partition, offset, range);
    range.begin = offset;
  }
  std::erase_if(window, [](const auto& one) { return one.second.begin == one.second.end; });
  return window;
}

void fetch_window(const Address& address, const std::function<void(const Message&)>& take) {
  Reader(address, "").read(take);
}

bool is_done(const Address& address, const std::string& group) {
  const Offsets done = Reader(address, group).committed(ends_of(address));
  bool is_all_done = true;
  for (const auto& [partition, offset] : done) {
    const Range& range = address.window.at(partition);
    // A group that is new begins anywhere.
    if (offset >= 0 && offset < range.begin)
      throw InputError(fmt::format(
          "{}: partition {}: group '{}' is at {}, before the window, {} to {}: what is between "
          "would be lost to it",
          address.name(), partition, group, offset, range.begin, range.end));
    is_all_done = is_all_done && offset >= range.end;
  }
  return is_all_done;
}

void commit_window(const Address& address, const std::string& group) {
  Reader reader(address, group);
  Offsets ends = ends_of(address);
  const Offsets before = reader.committed(ends);
  for (std::size_t i = 0; i < ends.size(); ++i)
    ends[i].second = std::max(ends[i].second, before[i].second);
  reader.commit(ends);
}

}  // namespace sullae::kafka
