// Which pieces texts are best cut into.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace sullae::data {

/// In front of a word's first piece: U+2581, as SentencePiece has it.
inline constexpr std::string_view kWordMark = "\xe2\x96\x81";

/// The bytes of the character that `text` begins with; 1 where that is no UTF-8.
std::size_t character_bytes(std::string_view text);

/// A word in parts of so many characters, which are learnt from and cut into pieces by themselves:
/// of languages without spaces texts are one word. `call` gets each, the first with the mark, and
/// returns whether to go on.
template <class Call>
void for_parts(std::string_view word, const Call& call) {
  constexpr int kMostCharacters = 64;
  std::string part(kWordMark);
  while (!word.empty()) {
    for (int i = 0; i < kMostCharacters && !word.empty(); ++i) {
      const std::size_t bytes = character_bytes(word);
      part += word.substr(0, bytes);
      word.remove_prefix(bytes);
    }
    if (!call(std::as_const(part))) return;
    part.clear();
  }
}

/// At most `count`, in the order in which they are put together: characters first, most frequent
/// first.
std::vector<std::string> learn_pieces(const std::vector<std::string_view>& texts,
                                      std::size_t count);

}  // namespace sullae::data
