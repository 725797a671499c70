// Messages of Kafka as samples, as they come.
#pragma once

#include <functional>
#include <span>

#include "kafka/address.h"
#include "kafka/message.h"
#include "sullae/data/dataset.h"

namespace sullae::data {

using Messages = std::span<const kafka::Message>;

/// Calls `act` with `messages`, which have values, or with parts of them one after the other, and the samples that they are, by their
/// places there. What cannot be opened together may have one among it that is at fault, which goes to `damage`. Sets
/// options.format where it is "auto": all messages of a topic have one. Throws what `act` and `damage` throw.
void open_messages(const kafka::Address& topic, Messages messages, DatasetOptions& options,
                   DamageLog& damage, const std::function<void(const DatasetPtr&, Messages)>& act);

/// How messages are read: each stands alone.
DatasetOptions alone(DatasetOptions options);

}  // namespace sullae::data
