#include "online/sample_source.h"

#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "base/deadline.h"
#include "base/log.h"
#include "base/request_error.h"
#include "data/record/topic_records.h"
#include "kafka/end_of_source.h"
#include "online/model_stores.h"
#include "online/online_model.h"
#include "repository/publish.h"
#include "repository/versions.h"
#include "sullae/data/image.h"
#include "sullae/error.h"

namespace sullae::online {
namespace {

// What the newest version takes and says; those that are learnt take and say the same.
train::ModelDescription describe(const std::filesystem::path& model) {
  const auto versions = repository::versions_in(model);
  if (versions.empty())
    throw InputError(fmt::format("{}: has no version, whose classes samples have", model.string()));
  const auto file = model / std::to_string(*versions.rbegin()) / repository::kModelFile;
  return train::description_of(read_version(file), file.string());
}

}  // namespace

SampleSource::SampleSource(const OnlineSource& source, const std::filesystem::path& model,
                           Until until)
    : once_(until == Until::end),
      topic_(kafka::parse_address(source.topic)),
      description_(describe(model)),
      file_(model / kExamplesFile),
      examples_(std::in_place, file_),
      damage_(source.skip_damaged, data::DamageLog::Of::stream),
      reading_(data::alone({.format = source.format,
                            .classes = description_.classes,
                            .text_columns = source.text_columns,
                            .label_column = source.label_column})),
      consumer_(topic_,
                source.group.empty() ? "sullae-online-" + model.filename().string() : source.group),
      thread_([this](const std::stop_token& stop) { read(stop); }) {}

SampleSource::~SampleSource() = default;

void SampleSource::check() {
  const std::lock_guard lock(mutex_);
  if (failure_) std::rethrow_exception(failure_);
}

bool SampleSource::is_drained() {
  const std::lock_guard lock(mutex_);
  return is_at_end_;
}

void SampleSource::read(const std::stop_token& stop) {
  constexpr std::chrono::seconds kBetween{10};
  auto told = Clock::now();
  std::size_t stored = 0;
  try {
    kafka::EndOfSource end(topic_.name());
    while (!stop.stop_requested()) {
      constexpr std::size_t kTogether = 1000;
      constexpr std::chrono::milliseconds kTurn{250};
      auto messages = consumer_.poll(kTogether, kTurn);
      const bool has_come = !messages.empty();
      if (has_come) {
        stored += store(std::move(messages), stop);
        consumer_.commit();
        const auto lag = consumer_.standing().lag;
        if (lag == 0 || Clock::now() - told > kBetween) {
          log::info("{}: {} samples, {} messages behind", topic_.name(), std::exchange(stored, 0),
                    lag);
          told = Clock::now();
        }
      }
      const std::lock_guard lock(mutex_);
      is_at_end_ = is_at_end_ || (once_ && end.is_reached(consumer_.standing(), has_come));
    }
  } catch (const std::exception&) {
    const std::lock_guard lock(mutex_);
    failure_ = std::current_exception();
  }
}

// In their order: of two of one key the last one counts.
std::size_t SampleSource::store(std::vector<kafka::Message> messages, const std::stop_token& stop) {
  std::vector<Example> examples;
  const data::Messages all = messages;
  for (std::size_t begin = 0; begin < all.size();) {
    if (!all[begin].value) {
      forget(all[begin++], examples);
      continue;
    }
    std::size_t end = begin + 1;
    while (end < all.size() && all[end].value) ++end;
    const auto some = all.subspan(begin, end - begin);
    add(data::open_messages(topic_, some, reading_), some, examples);
    begin = end;
  }
  const std::size_t count = examples.size();
  if (count > 0) put({.examples = std::move(examples), .author = "kafka: " + topic_.topic}, stop);
  return count;
}

// As often as it takes: another process may hold the file for long, or a disk be full for a while.
void SampleSource::put(const ExampleChange& change, const std::stop_token& stop) {
  constexpr std::chrono::milliseconds kPause{1000};
  for (bool is_told = false;; is_told = true) {
    try {
      if (!examples_ || !examples_->is_in_place()) {  // a backup has been put there
        if (examples_) examples_->expect_no_old_log();
        examples_.emplace(file_);
      }
      examples_->put(std::vector<ExampleChange>{change});
      return;
    } catch (const RequestError& error) {
      if (error.refusal() != Refusal::unavailable || stop.stop_requested()) throw;
      if (!is_told)
        log::warning("{}: {} samples wait: {}", topic_.name(), change.examples.size(),
                     error.what());
    }
    std::this_thread::sleep_for(kPause);
  }
}

void SampleSource::add(const data::DatasetPtr& set, data::Messages messages,
                       std::vector<Example>& examples) {
  for (std::size_t i = 0; i < set->size(); ++i) {
    try {
      const auto sample = set->read(i);
      try {
        examples.push_back(example_of(sample));
        if (messages[i].key) examples.back().key = *messages[i].key;
      } catch (const InputError& error) {
        throw data::DamagedRecord(fmt::format("{}: {}", set->place(i), error.what()));
      }
    } catch (const InputError& error) {
      damage_.report(error.what());
    }
  }
}

void SampleSource::forget(const kafka::Message& message, std::vector<Example>& examples) {
  if (message.key) {
    examples.push_back({.key = std::string(*message.key), .input = {}, .label = {}});
    return;
  }
  damage_.report(fmt::format("{}: has neither a key nor a value",
                             data::place_of(topic_, message.partition, message.offset)));
}

// Throws InputError, which says why and not where.
Example SampleSource::example_of(const data::Example& sample) const {
  const bool is_text = description_.input == train::InputKind::text;
  const auto* const input = sample.bytes(is_text ? data::feature::kText : data::feature::kImage);
  if (input == nullptr || input->empty())
    throw InputError(is_text ? "has no text" : "has no image");
  if (is_text && input->size() > train::kMostTextBytes)
    throw InputError(fmt::format("its text has {} bytes, expected at most {}", input->size(),
                                 train::kMostTextBytes));
  if (!is_text) data::decode_jpeg(*input);
  if (!description_.has_classes()) return {.key = {}, .input = *input, .label = kNoLabel};
  const auto* const number = sample.label();
  const auto* const name = sample.bytes(data::feature::kClass);
  if (number == nullptr && name == nullptr) throw InputError("has no label");
  const std::string label =
      name != nullptr ? *name
                      : train::class_name(description_.classes, static_cast<std::size_t>(*number));
  if (!description_.class_number(label))
    throw InputError(fmt::format("its label is '{}', which the model does not know", label));
  return {.key = {}, .input = *input, .label = label};
}

}  // namespace sullae::online
