// For who reads what is there now, and no more.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>

#include "base/deadline.h"
#include "base/log.h"
#include "kafka/consumer.h"
#include "kafka/settings.h"
#include "sullae/error.h"

namespace sullae::kafka {

/// Used by one thread.
class EndOfSource {
 public:
  explicit EndOfSource(std::string name)
      : name_(std::move(name)), limit_(read_settings(process_environment()).timeout) {}

  /// Whether it is reached: also where other members have all partitions for so long as brokers are
  /// waited for. To be asked after each poll. Throws TimeoutError where nothing comes and the end
  /// does not either, and where the group has not taken this member in.
  bool is_reached(const Standing& standing, bool has_something_come) {
    if (standing.is_at_end) return true;
    if (has_something_come) until_ = deadline();
    if (!until_.passed()) return false;
    if (!standing.has_joined)
      throw TimeoutError(
          fmt::format("{}: the group has not taken this member in, nor said which partitions it "
                      "has, {}",
                      name_, until_.describe()));
    if (standing.partitions > 0)
      throw TimeoutError(
          fmt::format("{}: {} partitions were not read to their ends, and nothing came {}", name_,
                      standing.partitions, until_.describe()));
    log::warning(
        "{}: other members of the group have all partitions: nothing was left for this one", name_);
    return true;
  }

 private:
  Deadline deadline() const { return {limit_, "SULLAE_KAFKA_TIMEOUT"}; }

  std::string name_;
  std::chrono::milliseconds limit_;
  Deadline until_ = deadline();
};

}  // namespace sullae::kafka
