// Texts as numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "sullae/data/dataset.h"
#include "sullae/data/pieces.h"

namespace sullae::data {

/// A text and its class.
struct LabelledText {
  std::string text;
  int label = 0;
};

/// All texts of a data set (feature::kText) with their labels. Throws InputError for a record that
/// has none; damaged ones go to `damage`.
std::vector<LabelledText> read_texts(const Dataset& dataset, DamageLog& damage);

/// All texts of a data set, with labels or without; damaged ones go to `damage`. Throws InputError
/// for a record that has no text.
std::vector<std::string> read_plain_texts(const Dataset& dataset, DamageLog& damage);

/// The words of a text, cut at white space; the first `most` of them.
std::vector<std::string_view> split_words(std::string_view text,
                                          std::size_t most = std::string_view::npos);

/// ASCII letters in lower case and ASCII punctuation as words of its own; other characters as they
/// are.
std::string normalise_english(std::string_view text);

/// Numbers for words: 0 is padding, 1 any word that is not known, the others by falling frequency
/// in the texts that it was made from (words of equal frequency in the order of their bytes).
class Vocabulary {
 public:
  static constexpr std::int64_t kPadding = 0;
  static constexpr std::int64_t kUnknown = 1;

  /// Of words that occur at least `min_count` times; those that are no UTF-8 stay unknown.
  static Vocabulary build(const std::vector<LabelledText>& texts, std::size_t min_count = 1);
  /// Of words in the order of their numbers, from 2 on. Throws InputError for one that is there
  /// twice.
  static Vocabulary of_words(const std::vector<std::string>& words);

  /// As of_words() takes them.
  std::vector<std::string> words() const;

  /// Numbers, padding and unknown included.
  std::size_t size() const { return numbers_.size() + 2; }
  std::int64_t number_of(std::string_view word) const;
  /// The words of `text` as numbers; a text without words becomes one unknown word, since models
  /// need one.
  std::vector<std::int64_t> encode(std::string_view text, std::size_t max_words) const;

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view word) const {
      return std::hash<std::string_view>{}(word);
    }
  };
  std::unordered_map<std::string, std::int64_t, Hash, std::equal_to<>> numbers_;
};

struct TextEncoderOptions {
  /// Words beyond this many are ignored.
  std::size_t max_words = 64;
  /// normalise_english() comes first.
  bool normalise = false;
  /// Numbers for pairs of neighbouring words, by hashing: there are too many to list them. They
  /// follow those of the words.
  std::int64_t word_pairs = 0;
};

/// Texts as the numbers that a network takes. Any thread.
class TextEncoder {
 public:
  TextEncoder(Vocabulary vocabulary, const TextEncoderOptions& options)
      : tokens_(std::move(vocabulary)), options_(options) {}
  /// As they are: of `options` the most words, which are pieces, counts alone.
  TextEncoder(Pieces pieces, const TextEncoderOptions& options)
      : tokens_(std::move(pieces)), options_(options) {}

  /// At least one number.
  std::vector<std::int64_t> encode(std::string_view text) const;
  /// Numbers that there are, for words and for pairs.
  std::int64_t size() const;
  /// "8000 pieces".
  std::string summary() const;

 private:
  std::variant<Vocabulary, Pieces> tokens_;
  TextEncoderOptions options_;
};

}  // namespace sullae::data
