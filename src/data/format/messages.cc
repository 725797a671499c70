#include "data/format/messages.h"

#include <fmt/format.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "data/format/format.h"
#include "data/format/records_set.h"
#include "data/record/topic_records.h"

namespace sullae::data {
namespace {

// Those of one shape are a set of their own.
class MessageSet final : public Dataset {
 public:
  MessageSet(const kafka::Address& topic, Messages messages, const DatasetOptions& options)
      : topic_(topic), messages_(messages), places_(messages.size()) {
    std::map<std::string, std::vector<std::size_t>> shapes;
    for (std::size_t i = 0; i < messages.size(); ++i)
      shapes[shape_of_record(std::string(*messages[i].value), options)].push_back(i);
    for (const auto& [shape, numbers] : shapes) {
      if (open(numbers, options) || numbers.size() == 1) continue;
      // Each for its own reason.
      for (const std::size_t i : numbers) open({i}, options);
    }
  }

  std::size_t size() const override { return messages_.size(); }
  std::string place(std::size_t i) const override {
    return place_of(topic_, messages_[i].partition, messages_[i].offset);
  }
  Example read(std::size_t i) const override {
    const Place& one = places_[i];
    if (one.set == nullptr) throw DamagedRecord(one.problem);
    return one.set->read(one.number);
  }

 private:
  struct Place {
    DatasetPtr set;
    std::size_t number = 0;
    std::string problem;  // where there is no set
  };

  bool open(const std::vector<std::size_t>& numbers, const DatasetOptions& options) {
    std::vector<const kafka::Message*> some;
    for (const std::size_t i : numbers) some.push_back(&messages_[i]);
    try {
      const auto set = open_records(records_of(topic_, std::move(some)), options);
      for (std::size_t number = 0; number < numbers.size(); ++number)
        places_[numbers[number]] = {.set = set, .number = number, .problem = {}};
      return true;
    } catch (const InputError& error) {
      const std::string where = place(numbers.front());
      const std::string what = error.what();
      places_[numbers.front()].problem =
          what.starts_with(where) ? what : fmt::format("{}: {}", where, what);
      return false;
    }
  }

  kafka::Address topic_;
  Messages messages_;
  std::vector<Place> places_;
};

// Of which nobody has said what they are.
class Unknown final : public Dataset {
 public:
  Unknown(const kafka::Address& topic, Messages messages) : topic_(topic), messages_(messages) {}
  std::size_t size() const override { return messages_.size(); }
  std::string place(std::size_t i) const override {
    return place_of(topic_, messages_[i].partition, messages_[i].offset);
  }
  Example read(std::size_t i) const override {
    throw DamagedRecord(place(i) +
                        ": is neither a JSON object nor a tf.train.Example: expected --data-format "
                        "csv or tsv for rows of a table");
  }

 private:
  kafka::Address topic_;
  Messages messages_;
};

}  // namespace

DatasetPtr open_messages(const kafka::Address& topic, Messages messages, DatasetOptions& options) {
  if (options.format == "auto") {
    std::vector<const kafka::Message*> all;
    for (const auto& message : messages) all.push_back(&message);
    const std::string format = recognise_records(*records_of(topic, std::move(all)));
    if (format != "jsonl" && format != "tfrecord")
      return std::make_shared<Unknown>(topic, messages);
    options.format = format;
  }
  return std::make_shared<MessageSet>(topic, messages, options);
}

DatasetOptions alone(DatasetOptions options) {
  options.unlabelled = true;
  options.stand_alone = true;
  return options;
}

}  // namespace sullae::data
