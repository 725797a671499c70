// Messages of Kafka as records.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/record/records.h"
#include "kafka/address.h"
#include "kafka/message.h"

namespace sullae::data {

/// "kafka://brokers/topic, partition 2, offset 17".
std::string place_of(const kafka::Address& topic, std::int32_t partition, std::int64_t offset);

/// Some messages, which all have values and outlive what is returned.
std::shared_ptr<const Records> records_of(const kafka::Address& topic,
                                          std::vector<const kafka::Message*> messages);

/// Those of the address's window that have values, in the order of partitions and offsets; fetched
/// now, and kept in a file without a name in TMPDIR. Throws InputError and Error.
std::shared_ptr<const Records> fetch_records(const kafka::Address& topic);

}  // namespace sullae::data
