// Messages of Kafka through a model, into another topic.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "kafka/address.h"
#include "predict/options.h"

namespace sullae::predict {

struct StreamOptions {
  kafka::Address source;
  kafka::Address sink;
  /// Consumers with this name share the source's partitions, and go on where it was.
  std::string group;
  /// Ends when all that was there is predicted.
  bool once = false;
};

/// How far a member of the group is.
struct StreamProgress {
  std::uint64_t predicted = 0;
  std::uint64_t damaged = 0;  ///< left out
  int partitions = 0;
  std::int64_t lag = 0;  ///< messages that wait in them
};

/// Predicts until `is_to_end` says so, which is asked, as `show` is told, several times a second.
/// Each message is predicted at least once: its offset is committed when the sink has acknowledged
/// what is predicted of it. A prediction's key is "topic/partition/offset", which are columns, too:
/// what is there twice after a crash falls out by it. `options.data` and what says how files are
/// read and written are not looked at. Throws InputError and Error.
StreamProgress predict_stream(const PredictOptions& options, const StreamOptions& stream,
                              const std::function<bool()>& is_to_end,
                              const std::function<void(const StreamProgress&)>& show);

}  // namespace sullae::predict
