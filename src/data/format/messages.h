// Messages of Kafka as samples, as they come.
#pragma once

#include <span>

#include "kafka/address.h"
#include "kafka/message.h"
#include "sullae/data/dataset.h"

namespace sullae::data {

using Messages = std::span<const kafka::Message>;

/// `messages`, which have values and outlive what is returned, in their order. Each is what it
/// would be alone, whichever came with it; reading one that is no sample throws DamagedRecord.
/// options.format "auto" becomes "jsonl" or "tfrecord" with the first batch that has one such: all
/// messages of a topic have one format, and rows of a table are none that could not be something
/// else.
DatasetPtr open_messages(const kafka::Address& topic, Messages messages, DatasetOptions& options);

/// How messages are read: without labels, and by themselves.
DatasetOptions alone(DatasetOptions options);

}  // namespace sullae::data
