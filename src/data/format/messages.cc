#include "data/format/messages.h"

#include <fmt/format.h>

#include <string>

#include "data/format/records_set.h"
#include "data/record/topic_records.h"

namespace sullae::data {

void open_messages(const kafka::Address& topic, Messages messages, DatasetOptions& options,
                   DamageLog& damage, const std::function<void(const DatasetPtr&, Messages)>& act) {
  if (messages.empty()) return;
  const auto records = records_of(topic, messages);
  if (options.format == "auto") options.format = recognise_records(*records);
  DatasetPtr set;
  try {
    set = open_records(records, options);
  } catch (const InputError& error) {
    if (messages.size() > 1) {
      const std::size_t half = messages.size() / 2;
      open_messages(topic, messages.first(half), options, damage, act);
      open_messages(topic, messages.subspan(half), options, damage, act);
      return;
    }
    const std::string what = error.what();
    const std::string place = records->place(0);
    damage.report(what.starts_with(place) ? what : fmt::format("{}: {}", place, what));
    return;
  }
  act(set, messages);
}

DatasetOptions alone(DatasetOptions options) {
  options.unlabelled = true;
  options.stand_alone = true;
  return options;
}

}  // namespace sullae::data
