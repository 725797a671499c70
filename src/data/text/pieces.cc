#include "sullae/data/pieces.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <unordered_map>

#include "data/text/pieces_learner.h"
#include "sullae/data/text.h"
#include "sullae/error.h"

namespace sullae::data {

class Pieces::Impl {
 public:
  explicit Impl(std::vector<std::string> list) : list_(std::move(list)) {
    for (const std::string& piece : list_) {
      const auto number = kFirstPiece + static_cast<std::int64_t>(numbers_.size());
      if (piece.empty() || !numbers_.emplace(piece, number).second)
        throw InputError(
            fmt::format("pieces: '{}' is {}", piece, piece.empty() ? "empty" : "there twice"));
    }
  }

  const std::vector<std::string>& list() const { return list_; }
  std::size_t size() const { return static_cast<std::size_t>(kFirstPiece) + list_.size(); }

  std::vector<std::int64_t> encode(std::string_view text, std::size_t most) const {
    std::vector<std::int64_t> numbers;
    for (const std::string_view word : split_words(text, most)) {
      for_parts(word, [&](const std::string& part) {
        encode_part(part, numbers);
        return numbers.size() < most;
      });
      if (numbers.size() >= most) break;
    }
    numbers.resize(std::min(numbers.size(), most));
    return numbers;
  }

  std::string decode(std::span<const std::int64_t> numbers) const {
    std::string text;
    for (const std::int64_t number : numbers) {
      if (number < 0 || static_cast<std::size_t>(number) >= size())
        throw InputError(fmt::format("piece {}: expected 0 to {}", number, size() - 1));
      if (number >= kFirstPiece)
        text += list_[static_cast<std::size_t>(number - kFirstPiece)];
      else if (number >= kFirstByte)
        text += static_cast<char>(number - kFirstByte);
    }
    // Marks become the spaces before words.
    std::string spaced;
    for (std::size_t at = 0;; at += kWordMark.size()) {
      const auto mark = text.find(kWordMark, at);
      spaced.append(text, at, mark - at);
      if (mark == std::string::npos) return spaced;
      if (!spaced.empty() && spaced.back() != '\n') spaced += ' ';
      at = mark;
    }
  }

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>{}(text);
    }
  };
  static constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();

  std::int64_t number_of(std::string_view piece) const {
    const auto found = numbers_.find(piece);
    return found == numbers_.end() ? kNone : found->second;
  }

  // Of all neighbours those that were joined first are joined first, until none can be.
  void encode_part(std::string_view word, std::vector<std::int64_t>& numbers) const {
    std::vector<std::string_view> parts;
    for (std::string_view rest = word; !rest.empty(); rest.remove_prefix(parts.back().size()))
      parts.push_back(rest.substr(0, character_bytes(rest)));
    const auto joined = [&](std::size_t i) {
      return std::string_view(parts[i].data(), parts[i].size() + parts[i + 1].size());
    };
    // Of each part and the next what they are together.
    std::vector<std::int64_t> pairs;
    for (std::size_t i = 0; i + 1 < parts.size(); ++i) pairs.push_back(number_of(joined(i)));
    while (!pairs.empty()) {
      const auto first = std::ranges::min_element(pairs);
      if (*first == kNone) break;
      const auto at = static_cast<std::size_t>(first - pairs.begin());
      parts[at] = joined(at);
      parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(at) + 1);
      pairs.erase(first);
      if (at < pairs.size()) pairs[at] = number_of(joined(at));
      if (at > 0) pairs[at - 1] = number_of(joined(at - 1));
    }
    for (const std::string_view part : parts) {
      const std::int64_t number = number_of(part);
      if (number != kNone) {
        numbers.push_back(number);
        continue;
      }
      for (const char byte : part) numbers.push_back(kFirstByte + static_cast<unsigned char>(byte));
    }
  }

  std::vector<std::string> list_;
  std::unordered_map<std::string, std::int64_t, Hash, std::equal_to<>> numbers_;
};

Pieces Pieces::learn(const std::vector<std::string_view>& texts, std::size_t count) {
  if (count <= static_cast<std::size_t>(kFirstPiece))
    throw InputError(fmt::format(
        "{} pieces: expected more than {}, which are bytes and special ones", count, kFirstPiece));
  return of_list(learn_pieces(texts, count - static_cast<std::size_t>(kFirstPiece)));
}

Pieces Pieces::of_list(std::vector<std::string> pieces) {
  return Pieces(std::make_shared<const Impl>(std::move(pieces)));
}

const std::vector<std::string>& Pieces::list() const { return impl_->list(); }
std::size_t Pieces::size() const { return impl_->size(); }
std::vector<std::int64_t> Pieces::encode(std::string_view text, std::size_t most) const {
  return impl_->encode(text, most);
}
std::vector<std::int64_t> Pieces::encode_lines(std::string_view text) const {
  std::vector<std::int64_t> numbers;
  for (;;) {
    const auto end = std::min(text.find('\n'), text.size());
    const auto line = encode(text.substr(0, end), std::string_view::npos);
    numbers.insert(numbers.end(), line.begin(), line.end());
    if (end == text.size()) return numbers;
    numbers.push_back(kFirstByte + '\n');
    text.remove_prefix(end + 1);
  }
}
std::string Pieces::decode(std::span<const std::int64_t> numbers) const {
  return impl_->decode(numbers);
}

}  // namespace sullae::data
