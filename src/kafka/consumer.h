// A topic's messages, as a member of a consumer group.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kafka/address.h"
#include "kafka/ends.h"
#include "kafka/message.h"

namespace sullae::kafka {

/// How far a consumer is.
struct Standing {
  /// The group has it as a member now, and has said which partitions it has: none, perhaps.
  bool has_joined = false;
  int partitions = 0;  ///< that it has
  /// Messages that are behind the last ones that it got, as far as it knows.
  std::int64_t lag = 0;
  /// It has partitions, and has been at the end of each.
  bool is_at_end = false;
  /// The group was in one of them before.
  bool has_begun = false;
};

/// Members of a group share the partitions of a topic; Kafka divides them anew when one comes or
/// goes. A group goes on where it was committed to be, and in partitions that are new to it from
/// their beginning. Used by one thread.
class Consumer {
 public:
  /// Throws InputError for a topic that is not there, and Error. Where `is_to_end`, waits for
  /// brokers end with an Error.
  Consumer(const Address& from, const std::string& group, IsToEnd is_to_end = {});
  /// Leaves the group.
  ~Consumer();
  Consumer(const Consumer&) = delete;
  Consumer& operator=(const Consumer&) = delete;

  /// What is there, at most `most`; waits for the first up to `limit`. A source that stands still
  /// is named by a line after ten seconds. Throws InputError where messages are gone before they
  /// were read, and Error.
  std::vector<Message> poll(std::size_t most, std::chrono::milliseconds limit);
  /// All that poll() has returned is done: nobody gets it again, but for what others have got since
  /// partitions were divided anew. Returns when the broker has it. Throws Error.
  void commit();
  Standing standing() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sullae::kafka
