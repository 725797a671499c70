#include <fmt/format.h>

#include <algorithm>

#include "base/utf8.h"
#include "sullae/data/order.h"
#include "sullae/data/text.h"

namespace sullae::data {

std::vector<std::string_view> split_words(std::string_view text, std::size_t most) {
  constexpr std::string_view kSpaces = " \t\r\n\v\f";
  std::vector<std::string_view> words;
  for (auto begin = text.find_first_not_of(kSpaces);
       begin != std::string_view::npos && words.size() < most;) {
    const auto end = std::min(text.find_first_of(kSpaces, begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = text.find_first_not_of(kSpaces, end);
  }
  return words;
}

Vocabulary Vocabulary::build(const std::vector<LabelledText>& texts, std::size_t min_count) {
  std::unordered_map<std::string_view, std::size_t> counts;
  for (const auto& text : texts) {
    for (const auto word : split_words(text.text)) ++counts[word];
  }
  std::vector<std::pair<std::string_view, std::size_t>> words;
  for (const auto& entry : counts) {
    if (entry.second >= min_count && find_invalid_utf8(entry.first) == std::string_view::npos)
      words.emplace_back(entry);
  }
  std::ranges::sort(words, [](const auto& a, const auto& b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  });
  Vocabulary vocabulary;
  vocabulary.numbers_.reserve(words.size());
  for (const auto& [word, count] : words) {
    vocabulary.numbers_.emplace(word, static_cast<std::int64_t>(vocabulary.numbers_.size()) + 2);
  }
  return vocabulary;
}

Vocabulary Vocabulary::of_words(const std::vector<std::string>& words) {
  Vocabulary vocabulary;
  vocabulary.numbers_.reserve(words.size());
  for (const auto& word : words) {
    const auto number = static_cast<std::int64_t>(vocabulary.numbers_.size()) + 2;
    if (!vocabulary.numbers_.emplace(word, number).second)
      throw InputError(fmt::format("vocabulary: '{}' is there twice", word));
  }
  return vocabulary;
}

std::vector<std::string> Vocabulary::words() const {
  std::vector<std::string> words(numbers_.size());
  for (const auto& [word, number] : numbers_) words[static_cast<std::size_t>(number) - 2] = word;
  return words;
}

std::int64_t Vocabulary::number_of(std::string_view word) const {
  const auto found = numbers_.find(word);
  return found == numbers_.end() ? kUnknown : found->second;
}

std::vector<std::int64_t> Vocabulary::encode(std::string_view text, std::size_t max_words) const {
  std::vector<std::int64_t> numbers;
  for (const auto word : split_words(text, max_words)) numbers.push_back(number_of(word));
  if (numbers.empty()) numbers.push_back(kUnknown);
  return numbers;
}

}  // namespace sullae::data
