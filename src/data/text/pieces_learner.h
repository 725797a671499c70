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

/// At most `count`, in the order in which they are put together: characters first, most frequent first.
std::vector<std::string> learn_pieces(const std::vector<std::string_view>& texts,
                                      std::size_t count);

}  // namespace sullae::data
