#include <fmt/format.h>

#include "sullae/data/order.h"
#include "sullae/data/text.h"

namespace sullae::data {
namespace {

std::vector<std::int64_t> encode_words(const Vocabulary& vocabulary,
                                       const TextEncoderOptions& options, std::string_view text) {
  auto numbers = options.normalise ? vocabulary.encode(normalise_english(text), options.max_words)
                                   : vocabulary.encode(text, options.max_words);
  if (options.word_pairs == 0) return numbers;
  const std::size_t count = numbers.size();
  for (std::size_t i = 0; i + 1 < count; ++i) {
    Random hash(static_cast<std::uint64_t>(numbers[i]), static_cast<std::uint64_t>(numbers[i + 1]),
                0);
    const auto pair = hash.below(static_cast<std::uint64_t>(options.word_pairs));
    numbers.push_back(static_cast<std::int64_t>(vocabulary.size() + pair));
  }
  return numbers;
}

}  // namespace

std::vector<std::int64_t> TextEncoder::encode(std::string_view text) const {
  if (const auto* words = std::get_if<Vocabulary>(&tokens_))
    return encode_words(*words, options_, text);
  auto pieces = std::get<Pieces>(tokens_).encode(text, options_.max_words);
  if (pieces.empty()) pieces.push_back(Pieces::kUnknown);
  return pieces;
}

std::int64_t TextEncoder::size() const {
  if (const auto* words = std::get_if<Vocabulary>(&tokens_))
    return static_cast<std::int64_t>(words->size()) + options_.word_pairs;
  return static_cast<std::int64_t>(std::get<Pieces>(tokens_).size());
}

std::string TextEncoder::summary() const {
  if (const auto* words = std::get_if<Vocabulary>(&tokens_))
    return fmt::format("{} words", words->size());
  return fmt::format("{} pieces", std::get<Pieces>(tokens_).size());
}

}  // namespace sullae::data
