// Messages of librdkafka as those of ours.
#pragma once

#include <librdkafka/rdkafka.h>

#include <memory>

#include "kafka/client.h"
#include "kafka/message.h"

namespace sullae::kafka {

using Received = std::unique_ptr<rd_kafka_message_t, Destroy<&rd_kafka_message_destroy>>;

/// One without an error.
inline Message to_message(Received received) {
  const auto view = [](const void* data, std::size_t bytes) -> std::optional<std::string_view> {
    if (data == nullptr) return std::nullopt;
    return std::string_view(static_cast<const char*>(data), bytes);
  };
  rd_kafka_timestamp_type_t type{};
  return {.partition = received->partition,
          .offset = received->offset,
          .time = rd_kafka_message_timestamp(received.get(), &type),
          .key = view(received->key, received->key_len),
          .value = view(received->payload, received->len),
          .owner = {received.release(), [](void* one) {
                      rd_kafka_message_destroy(static_cast<rd_kafka_message_t*>(one));
                    }}};
}

}  // namespace sullae::kafka
