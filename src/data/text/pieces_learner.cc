#include "data/text/pieces_learner.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <queue>
#include <set>
#include <unordered_map>
#include <utility>

#include "base/utf8.h"
#include "sullae/data/text.h"

namespace sullae::data {
namespace {

// Characters that occur but once in so many are bytes: they would take the place of pieces.
constexpr std::size_t kRare = 100000;

using Pair = std::pair<int, int>;
struct PairHash {
  std::size_t operator()(const Pair& pair) const {
    return static_cast<std::size_t>(pair.first) * 1000003U ^ static_cast<std::size_t>(pair.second);
  }
};

struct Word {
  std::vector<int> pieces;  // -1: a character that is none, and joins nothing
  std::int64_t count = 0;
};

std::vector<std::string_view> characters_of(std::string_view text) {
  std::vector<std::string_view> characters;
  while (!text.empty()) {
    characters.push_back(text.substr(0, character_bytes(text)));
    text.remove_prefix(characters.back().size());
  }
  return characters;
}

// Ordered, so that equal texts are learnt from in one order.
std::map<std::string, std::int64_t> count_words(const std::vector<std::string_view>& texts) {
  std::unordered_map<std::string_view, std::int64_t> counts;
  for (const std::string_view text : texts) {
    for (const std::string_view word : split_words(text)) ++counts[word];
  }
  std::map<std::string, std::int64_t> parts;
  for (const auto& [word, count] : counts) {
    for_parts(word, [&parts, times = count](const std::string& part) {
      parts[part] += times;
      return true;
    });
  }
  return parts;
}

class Learner {
 public:
  Learner(const std::vector<std::string_view>& texts, std::size_t count) : most_(count) {
    const auto words = count_words(texts);
    take_characters(words);
    for (const auto& [word, occurrences] : words) add_word(word, occurrences);
    for (const auto& [pair, occurrences] : counts_) queue_.push({occurrences, pair});
  }

  std::vector<std::string> learn() {
    while (pieces_.size() < most_ && !queue_.empty()) {
      const auto [count, pair] = queue_.top();
      queue_.pop();
      const auto found = counts_.find(pair);
      const std::int64_t now = found == counts_.end() ? 0 : found->second;
      if (now < 2) continue;
      if (now < count) {  // it was counted before others were joined
        queue_.push({now, pair});
        continue;
      }
      join(pair);
    }
    return std::move(pieces_);
  }

 private:
  // Most frequent first; of equals the one whose pieces were learnt first.
  struct Candidate {
    std::int64_t count;
    Pair pair;
    bool operator<(const Candidate& other) const {
      return count != other.count ? count < other.count : pair > other.pair;
    }
  };

  void take_characters(const std::map<std::string, std::int64_t>& words) {
    std::map<std::string, std::int64_t> counts;
    std::int64_t all = 0;
    for (const auto& [word, occurrences] : words) {
      for (const auto character : characters_of(word)) {
        counts[std::string(character)] += occurrences;
        all += occurrences;
      }
    }
    std::vector<std::pair<std::string, std::int64_t>> sorted(counts.begin(), counts.end());
    std::ranges::stable_sort(sorted, std::greater{}, &std::pair<std::string, std::int64_t>::second);
    for (const auto& [character, count] : sorted) {
      const bool is_rare = static_cast<std::size_t>(count) * kRare < static_cast<std::size_t>(all);
      if (pieces_.size() == most_ || is_rare) break;
      // What is no UTF-8 is bytes.
      const bool is_byte =
          static_cast<unsigned char>(character.front()) >= 0x80 && character.size() == 1;
      if (!is_byte) add_piece(character);
    }
  }

  int add_piece(const std::string& piece) {
    const auto [place, is_new] = numbers_.emplace(piece, static_cast<int>(pieces_.size()));
    if (is_new) pieces_.push_back(piece);
    return place->second;
  }

  void add_word(const std::string& word, std::int64_t count) {
    Word one{.count = count};
    for (const auto character : characters_of(word)) {
      const auto found = numbers_.find(std::string(character));
      one.pieces.push_back(found == numbers_.end() ? -1 : found->second);
    }
    words_.push_back(std::move(one));
    const std::size_t number = words_.size() - 1;
    change_counts(number, 1);
    for_pairs(number, [&](const Pair& pair) { add_place(pair, number); });
  }

  template <class Call>
  void for_pairs(std::size_t number, const Call& call) const {
    const auto& pieces = words_[number].pieces;
    for (std::size_t i = 0; i + 1 < pieces.size(); ++i) {
      if (pieces[i] >= 0 && pieces[i + 1] >= 0) call(Pair{pieces[i], pieces[i + 1]});
    }
  }

  void change_counts(std::size_t number, std::int64_t sign) {
    for_pairs(number, [&](const Pair& pair) { counts_[pair] += sign * words_[number].count; });
  }

  void add_place(const Pair& pair, std::size_t number) {
    auto& places = places_[pair];
    if (places.empty() || places.back() != number) places.push_back(number);
  }

  void join(const Pair& pair) {
    const int joined = add_piece(pieces_[static_cast<std::size_t>(pair.first)] +
                                 pieces_[static_cast<std::size_t>(pair.second)]);
    const auto places = std::move(places_[pair]);
    places_.erase(pair);
    std::set<Pair> raised;
    for (const std::size_t number : places) {
      change_counts(number, -1);
      auto& pieces = words_[number].pieces;
      std::vector<int> after;
      for (std::size_t i = 0; i < pieces.size(); ++i) {
        if (i + 1 < pieces.size() && Pair{pieces[i], pieces[i + 1]} == pair) {
          after.push_back(joined);
          ++i;
        } else {
          after.push_back(pieces[i]);
        }
      }
      pieces = std::move(after);
      change_counts(number, 1);
      for_pairs(number, [&](const Pair& one) {
        if (one.first != joined && one.second != joined) return;
        add_place(one, number);
        raised.insert(one);
      });
    }
    counts_.erase(pair);
    for (const Pair& one : raised) queue_.push({counts_[one], one});
  }

  std::size_t most_;
  std::vector<std::string> pieces_;
  std::unordered_map<std::string, int> numbers_;
  std::vector<Word> words_;
  std::unordered_map<Pair, std::int64_t, PairHash> counts_;
  std::unordered_map<Pair, std::vector<std::size_t>, PairHash> places_;  // words that have had it
  std::priority_queue<Candidate> queue_;
};

}  // namespace

std::size_t character_bytes(std::string_view text) {
  return std::max<std::size_t>(utf8_sequence_length(text), 1);
}

std::vector<std::string> learn_pieces(const std::vector<std::string_view>& texts,
                                      std::size_t count) {
  return Learner(texts, count).learn();
}

}  // namespace sullae::data
