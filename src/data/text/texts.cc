#include <fmt/format.h>

#include <cctype>
#include <limits>

#include "sullae/data/text.h"

namespace sullae::data {

namespace {

// Calls `take` with each sample and its number.
template <class Take>
void read_all(const Dataset& dataset, DamageLog& damage, const Take& take) {
  for (std::size_t i = 0; i < dataset.size(); ++i) {
    try {
      take(dataset.read(i), i);
    } catch (const DamagedRecord& error) {
      damage.report(error.what());
    }
  }
}

}  // namespace

std::vector<LabelledText> read_texts(const Dataset& dataset, DamageLog& damage) {
  std::vector<LabelledText> texts;
  texts.reserve(dataset.size());
  read_all(dataset, damage, [&](const Example& example, std::size_t i) {
    const auto* const text = example.bytes(feature::kText);
    const auto* const label = example.label();
    if (text == nullptr || label == nullptr) {
      throw InputError(fmt::format("{}: is no labelled text: expected the features '{}' and '{}'",
                                   dataset.place(i), feature::kText, feature::kTextLabel));
    }
    if (*label < std::numeric_limits<int>::min() || *label > std::numeric_limits<int>::max())
      throw InputError(fmt::format("{}: its label is {}, expected the number of a class",
                                   dataset.place(i), *label));
    texts.push_back({*text, static_cast<int>(*label)});
  });
  return texts;
}

std::vector<std::string> read_plain_texts(const Dataset& dataset, DamageLog& damage) {
  std::vector<std::string> texts;
  texts.reserve(dataset.size());
  read_all(dataset, damage, [&](const Example& example, std::size_t i) {
    const auto* const text = example.bytes(feature::kText);
    if (text == nullptr)
      throw InputError(fmt::format("{}: is no text: expected the feature '{}'", dataset.place(i),
                                   feature::kText));
    texts.push_back(*text);
  });
  return texts;
}

std::string normalise_english(std::string_view text) {
  std::string result;
  result.reserve(text.size() + text.size() / 8);
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool apart = byte < 0x80 && std::ispunct(byte) != 0 && c != '\'';
    if (apart) result += ' ';
    result += byte < 0x80 ? static_cast<char>(std::tolower(byte)) : c;
    if (apart) result += ' ';
  }
  return result;
}

}  // namespace sullae::data
