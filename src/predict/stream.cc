#include "predict/stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <utility>

#include "data/format/messages.h"
#include "kafka/consumer.h"
#include "kafka/end_of_source.h"
#include "kafka/producer.h"
#include "predict/names.h"
#include "predict/open_model.h"
#include "predict/part.h"
#include "predict/row_writer.h"
#include "sullae/error.h"

namespace sullae::predict {
namespace {

// What is known of a message besides its value: the first three tell it apart, the others are there
// for --columns.
constexpr std::array<const char*, 3> kOwn = {"topic", "partition", "offset"};
constexpr const char* kKey = "message.key";
constexpr const char* kTime = "message.time";

// Adds them to the samples.
class WithPlaces final : public data::Dataset {
 public:
  WithPlaces(data::DatasetPtr set, const std::string& topic, data::Messages messages)
      : set_(std::move(set)), topic_(topic), messages_(messages) {}

  std::size_t size() const override { return set_->size(); }
  std::string place(std::size_t i) const override { return set_->place(i); }
  data::Example read(std::size_t i) const override {
    data::Example sample = set_->read(i);
    const kafka::Message& message = messages_[i];
    set(sample, kOwn[0], topic_);
    set(sample, kOwn[1], std::int64_t{message.partition});
    set(sample, kOwn[2], message.offset);
    if (message.key) set(sample, kKey, std::string(*message.key));
    set(sample, kTime, message.time);
    return sample;
  }

 private:
  template <class Value>
  static void set(data::Example& sample, const char* name, Value value) {
    sample.set(std::string(data::feature::kColumn) + name, std::move(value));
  }

  data::DatasetPtr set_;
  std::string topic_;
  data::Messages messages_;
};

// A prediction a message.
class ToTopic final : public RowWriter {
 public:
  ToTopic(kafka::Producer& producer, const RowFormat& format, const std::string& topic,
          data::Messages messages)
      : producer_(producer), format_(format), topic_(topic), messages_(messages) {}

  void write(const Row& row) override {
    const kafka::Message& message = messages_[row.number];
    value_.clear();
    format_.append(row, value_);
    producer_.send(fmt::format("{}/{}/{}", topic_, message.partition, message.offset), value_);
  }
  void close() override { producer_.flush(); }

 private:
  kafka::Producer& producer_;
  const RowFormat& format_;
  std::string topic_;
  data::Messages messages_;
  std::string value_;
};

// How many messages are taken together: as many as are predicted in some seconds. A member that
// does not ask for minutes loses its partitions, and what it has done meanwhile is done again.
class Size {
 public:
  Size(const serve::Model& model, const PredictOptions& options)
      : least_(std::max<std::size_t>(options.batch_size, 1)),
        most_(most_together(model, options.batch_size)),
        messages_(std::min(most_, least_ * std::max<std::size_t>(options.workers, 1))) {}

  std::size_t messages() const { return messages_; }
  void took(std::size_t count, std::chrono::steady_clock::duration time) {
    constexpr std::chrono::seconds kLong{10};
    if (time > kLong) messages_ = std::max(least_, messages_ / 2);
    if (time < kLong / 4 && count == messages_) messages_ = std::min(most_, messages_ * 2);
  }

 private:
  std::size_t least_;
  std::size_t most_;
  std::size_t messages_;
};

class Stream {
 public:
  Stream(const PredictOptions& options, const StreamOptions& stream,
         const std::function<bool()>& is_to_end)
      : options_(options),
        stream_(stream),
        opened_(options),
        damage_(options.skip_damaged, data::DamageLog::Of::stream),
        format_(make_format()),
        producer_(stream.sink, is_to_end),
        consumer_(stream.source, stream.group, is_to_end) {
    options_.labels = false;
    options_.reading = data::alone(options_.reading);
    options_.reading.damage = &damage_;
    for (const auto& column : options.columns) {
      if (column != kKey && column != kTime) options_.reading.kept_columns.push_back(column);
    }
    if (options_.batch_size == 0)
      options_.batch_size = static_cast<std::size_t>(opened_.model.max_batch_size());
  }

  StreamProgress run(const std::function<bool()>& is_to_end,
                     const std::function<void(const StreamProgress&)>& show) {
    Size size(opened_.model, options_);
    kafka::EndOfSource end(stream_.source.name());
    while (!is_to_end()) {
      constexpr std::chrono::milliseconds kTurn{250};
      auto messages = consumer_.poll(size.messages(), kTurn);
      const bool has_come = !messages.empty();
      if (has_come) {
        const auto begin = std::chrono::steady_clock::now();
        const std::size_t count = messages.size();
        std::erase_if(messages, [](const auto& one) { return !one.value; });
        predict(messages);
        check_damage();
        producer_.flush();
        if (!is_all_damaged()) consumer_.commit();
        size.took(count, std::chrono::steady_clock::now() - begin);
      }
      const auto standing = consumer_.standing();
      progress_.partitions = standing.partitions;
      progress_.lag = standing.lag;
      show(progress_);
      if (stream_.once && end.is_reached(standing, has_come)) {
        consumer_.commit();
        break;
      }
    }
    return progress_;
  }

 private:
  std::unique_ptr<RowFormat> make_format() const {
    const auto outputs = opened_.output_names();
    check_names(options_, outputs, {kOwn.begin(), kOwn.end()});
    RowFields fields{.number = false,
                     .outputs = options_.outputs,
                     .known_outputs = opened_.model.codec().outputs()};
    fields.columns.assign(kOwn.begin(), kOwn.end());
    fields.columns.insert(fields.columns.end(), options_.columns.begin(), options_.columns.end());
    return make_row_format(options_.format, std::move(fields));
  }

  void predict(data::Messages messages) {
    if (messages.empty()) return;
    const WithPlaces samples(data::open_messages(stream_.source, messages, options_.reading),
                             stream_.source.topic, messages);
    ToTopic writer(producer_, *format_, stream_.source.topic, messages);
    const auto seen = PartPredictor(opened_.model, samples, options_)
                          .predict(0, messages.size(), writer, [](std::size_t) {});
    progress_.predicted += seen.rows;
    progress_.damaged += seen.damaged;
  }

  // Rather the flags are at fault: a group that has done nothing yet would lose all.
  bool is_all_damaged() const {
    return progress_.predicted == 0 && progress_.damaged > 0 && !consumer_.standing().has_begun;
  }
  void check_damage() const {
    constexpr std::uint64_t kFew = 10;
    if (!is_all_damaged() || progress_.damaged < kFew) return;
    throw InputError(fmt::format(
        "{}: all of the first {} messages are damaged: expected messages that the model takes "
        "(--data-format, --text-columns)",
        stream_.source.name(), progress_.damaged));
  }

  PredictOptions options_;
  StreamOptions stream_;
  OpenModel opened_;
  data::DamageLog damage_;
  std::unique_ptr<RowFormat> format_;
  kafka::Producer producer_;
  kafka::Consumer consumer_;
  StreamProgress progress_;
};

}  // namespace

StreamProgress predict_stream(const PredictOptions& options, const StreamOptions& stream,
                              const std::function<bool()>& is_to_end,
                              const std::function<void(const StreamProgress&)>& show) {
  return Stream(options, stream, is_to_end).run(is_to_end, show);
}

}  // namespace sullae::predict
