// A set of ranks of one world.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

namespace sullae::engine {

class RankSet {
 public:
  explicit RankSet(int size) : words_(static_cast<std::size_t>(size + 63) / 64) {}

  void insert(int rank) { word(rank) |= bit(rank); }
  void erase(int rank) { word(rank) &= ~bit(rank); }
  bool contains(int rank) const {
    return (words_[static_cast<std::size_t>(rank) / 64] & bit(rank)) != 0;
  }
  void clear() { std::ranges::fill(words_, 0); }
  int size() const {
    int count = 0;
    for (const auto w : words_) count += std::popcount(w);
    return count;
  }
  bool empty() const { return size() == 0; }
  /// How many ranks are in this set, in `other`, or in both.
  int size_with(const RankSet& other) const {
    int count = 0;
    for (std::size_t i = 0; i < words_.size(); ++i)
      count += std::popcount(words_[i] | other.words_[i]);
    return count;
  }
  std::vector<int> ranks() const {
    std::vector<int> all;
    for (int rank = 0; rank < static_cast<int>(words_.size() * 64); ++rank) {
      if (contains(rank)) all.push_back(rank);
    }
    return all;
  }

 private:
  static std::uint64_t bit(int rank) { return std::uint64_t{1} << (rank % 64); }
  std::uint64_t& word(int rank) { return words_[static_cast<std::size_t>(rank) / 64]; }

  std::vector<std::uint64_t> words_;
};

}  // namespace sullae::engine
