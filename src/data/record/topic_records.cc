#include "data/record/topic_records.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "kafka/window.h"
#include "storage/spool.h"

namespace sullae::data {
namespace {

class MessageRecords final : public Records {
 public:
  MessageRecords(const kafka::Address& topic, std::vector<const kafka::Message*> messages)
      : topic_(topic), name_(topic.name()), messages_(std::move(messages)) {}

  const std::string& name() const override { return name_; }
  std::size_t size() const override { return messages_.size(); }
  std::string read(std::size_t i) const override { return std::string(*messages_[i]->value); }
  std::string place(std::size_t i) const override {
    return place_of(topic_, messages_[i]->partition, messages_[i]->offset);
  }

 private:
  kafka::Address topic_;
  std::string name_;
  std::vector<const kafka::Message*> messages_;
};

class KeptRecords final : public Records {
 public:
  explicit KeptRecords(const kafka::Address& topic)
      : topic_(topic), name_(topic.name()), spool_(storage::make_spool()) {
    std::string waiting;
    const auto write = [&] {
      storage::write_spool(spool_.get(), bytes_ - waiting.size(), waiting.data(), waiting.size());
      waiting.clear();
    };
    kafka::fetch_window(topic, [&](const kafka::Message& message) {
      if (!message.value) return;
      constexpr std::size_t kPiece = std::size_t{1} << 20;
      records_.push_back({message.partition, message.offset, bytes_, message.value->size()});
      waiting += *message.value;
      bytes_ += message.value->size();
      if (waiting.size() >= kPiece) write();
    });
    write();
    // Partitions come as brokers give them.
    std::ranges::sort(records_, {},
                      [](const Place& place) { return std::pair(place.partition, place.offset); });
  }

  const std::string& name() const override { return name_; }
  std::size_t size() const override { return records_.size(); }
  std::string read(std::size_t i) const override {
    std::string bytes(records_[i].bytes, '\0');
    storage::read_spool(spool_.get(), records_[i].begin, bytes.data(), bytes.size());
    return bytes;
  }
  std::string place(std::size_t i) const override {
    return place_of(topic_, records_[i].partition, records_[i].offset);
  }

 private:
  struct Place {
    std::int32_t partition = 0;
    std::int64_t offset = 0;
    std::uint64_t begin = 0;  // in the spool
    std::size_t bytes = 0;
  };

  kafka::Address topic_;
  std::string name_;
  UniqueFd spool_;
  std::uint64_t bytes_ = 0;
  std::vector<Place> records_;
};

}  // namespace

std::string place_of(const kafka::Address& topic, std::int32_t partition, std::int64_t offset) {
  return fmt::format("{}, partition {}, offset {}", topic.name(), partition, offset);
}

std::shared_ptr<const Records> records_of(const kafka::Address& topic,
                                          std::vector<const kafka::Message*> messages) {
  return std::make_shared<MessageRecords>(topic, std::move(messages));
}

std::shared_ptr<const Records> fetch_records(const kafka::Address& topic) {
  return std::make_shared<KeptRecords>(topic);
}

}  // namespace sullae::data
