// Texts in pieces of words.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sullae::data {

/// Words cut into pieces that are learnt from texts, so that no word is unknown: of languages that
/// put words together, as Korean does, words between spaces are too many. Pairs of neighbours that
/// occur most often become pieces, beginning with characters (R. Sennrich et al., 2016: BPE); a
/// piece with which a word begins has a mark in front, as SentencePiece's have. Characters that are
/// too rare to be pieces are their bytes, so that every text comes back from decode(), but for its
/// white space, and marks of its own (U+2581), which become spaces. Any thread; copies refer to the
/// same pieces.
class Pieces {
 public:
  static constexpr std::int64_t kPadding = 0;
  static constexpr std::int64_t kUnknown = 1;  ///< for texts without words
  static constexpr std::int64_t kBegin = 2;
  static constexpr std::int64_t kEnd = 3;
  static constexpr std::int64_t kFirstByte = 4;
  static constexpr std::int64_t kFirstPiece = kFirstByte + 256;

  /// At most `count` pieces, those above among them. Equal texts give equal pieces. 150,000 reviews
  /// take seconds. Throws InputError for a count that leaves none to be learnt.
  static Pieces learn(const std::vector<std::string_view>& texts, std::size_t count);
  /// From kFirstPiece on, in the order in which they were learnt. Throws InputError for one that is
  /// there twice, or empty.
  static Pieces of_list(std::vector<std::string> pieces);

  /// As of_list() takes them.
  const std::vector<std::string>& list() const;
  /// Numbers, special ones and bytes included.
  std::size_t size() const;
  /// The first `most` pieces' numbers; none for a text without words.
  std::vector<std::int64_t> encode(std::string_view text, std::size_t most) const;
  /// All pieces of a text of several lines, with the byte of a line break between two lines.
  std::vector<std::int64_t> encode_lines(std::string_view text) const;
  /// Special ones are left out. Throws InputError for a number that is no piece's.
  std::string decode(std::span<const std::int64_t> numbers) const;

 private:
  class Impl;
  explicit Pieces(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

}  // namespace sullae::data
