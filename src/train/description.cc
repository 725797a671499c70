#include "train/description.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/dump_json.h"
#include "base/json_message.h"
#include "sullae/error.h"
#include "sullae/torch/checkpoint.h"

namespace sullae::train {

NLOHMANN_JSON_SERIALIZE_ENUM(InputKind, {{InputKind::image, "image"}, {InputKind::text, "text"}})
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ModelDescription, recipe, input, numbers, classes, words, mean,
                                   deviation)

namespace {

constexpr const char* kDescription = "model";

}  // namespace

double ModelDescription::number(const std::string& name) const {
  const auto found = numbers.find(name);
  if (found == numbers.end())
    throw InputError(fmt::format("the description of a {} model has no '{}'", recipe, name));
  return found->second;
}

std::int64_t ModelDescription::integer(const std::string& name) const {
  const double value = number(name);
  if (value != std::floor(value) || std::abs(value) > 1e15)
    throw InputError(fmt::format("--{} {}: expected a whole number", name, value));
  return static_cast<std::int64_t>(value);
}

std::string class_name(const std::vector<std::string>& names, std::size_t number) {
  return number < names.size() ? names[number] : std::to_string(number);
}

std::optional<std::int64_t> ModelDescription::class_number(const std::string& name) const {
  const auto found = numbers.find("classes");
  const auto count =
      found == numbers.end() ? classes.size() : static_cast<std::size_t>(found->second);
  for (std::size_t number = 0; number < count; ++number) {
    if (class_name(classes, number) == name) return static_cast<std::int64_t>(number);
  }
  return std::nullopt;
}

void add_description(CheckpointMetadata& metadata, const ModelDescription& description) {
  // Names of classes that are no UTF-8 are kept readable.
  metadata.texts[kDescription] = dump_json(nlohmann::json(description));
}

ModelDescription description_of(const CheckpointMetadata& metadata, const std::string& file) {
  const auto found = metadata.texts.find(kDescription);
  if (found == metadata.texts.end()) {
    throw InputError(fmt::format(
        "{}: does not say which model it is of: expected a checkpoint of `sullae train`", file));
  }
  try {
    return nlohmann::json::parse(found->second).get<ModelDescription>();
  } catch (const nlohmann::json::exception& error) {
    throw InputError(fmt::format("{}: its description of the model cannot be read: {}", file,
                                 json_message(error)));
  }
}

void check_same_model(const CheckpointMetadata& found, const CheckpointMetadata& own,
                      const std::string& option) {
  const auto before = description_of(found, option);
  const auto now = description_of(own, "--data");
  if (before.words != now.words || before.classes != now.classes)
    throw InputError(fmt::format(
        "{}: the checkpoint is of other data: its model knows {} words and {} classes that are not "
        "those of --data, which has {} and {}",
        option, before.words.size(), before.classes.size(), now.words.size(), now.classes.size()));
  // Before sizes of weights, and of what else hangs on them, differ.
  for (const char* const name : {"heads", "normalise", "layers", "context", "embedding-size"}) {
    const auto there = before.numbers.find(name);
    const auto here = now.numbers.find(name);
    if (there == before.numbers.end() || here == now.numbers.end() || there->second == here->second)
      continue;
    throw InputError(
        fmt::format("{}: the checkpoint is of a model with --{} {}, and this one has {}: "
                    "expected the same",
                    option, name, there->second, here->second));
  }
}

data::TextEncoder make_text_encoder(const ModelDescription& description) {
  const auto most = static_cast<std::size_t>(description.integer("max-words"));
  if (description.numbers.contains("pieces"))
    return {data::Pieces::of_list(description.words), {.max_words = most}};
  return {data::Vocabulary::of_words(description.words),
          {.max_words = most,
           .normalise = description.number("normalise") != 0,
           .word_pairs = description.integer("word-pairs")}};
}

}  // namespace sullae::train
