// Where rows are, by what they are called.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "ps/rows.h"
#include "ps/server/huge_pages.h"

namespace sullae::ps {

/// A hash table from ids to numbers, by linear probing. Maps of the libraries cannot be told which
/// ids will be asked for next, and with ten million of them each question waits for memory.
class RowNumbers {
 public:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  /// This one is asked for soon.
  void prefetch(std::uint64_t id) const { __builtin_prefetch(&slots_[place_of(id)]); }
  /// kNone where it is not there.
  std::uint32_t find(std::uint64_t id) const { return slots_[slot_of(id)].number; }
  /// One that is not there.
  void insert(std::uint64_t id, std::uint32_t number) {
    if (4 * (size_ + 1) > 3 * slots_.size()) grow(2 * slots_.size());
    slots_[slot_of(id)] = {id, number};
    ++size_;
  }
  void reserve(std::size_t count) {
    const std::size_t slots = std::bit_ceil(2 * count + 1);
    if (slots > slots_.size()) grow(slots);
  }
  std::size_t size() const { return size_; }
  /// Costs no more than what was there.
  void clear() {
    constexpr std::size_t kMostSlots = 16;  // of each that was there
    const bool is_mostly_empty = slots_.size() > kMostSlots * size_;
    slots_ = Slots(is_mostly_empty ? kLeastSlots : slots_.size());
    size_ = 0;
  }

 private:
  struct Slot {
    std::uint64_t id = 0;
    std::uint32_t number = kNone;
  };
  using Slots = std::vector<Slot, HugePages<Slot>>;
  static constexpr std::size_t kLeastSlots = 16;

  std::size_t place_of(std::uint64_t id) const { return mix64(id) & (slots_.size() - 1); }
  // Its own, or the empty one where it belongs.
  std::size_t slot_of(std::uint64_t id) const {
    std::size_t at = place_of(id);
    while (slots_[at].number != kNone && slots_[at].id != id) at = (at + 1) & (slots_.size() - 1);
    return at;
  }
  void grow(std::size_t slots) {
    const Slots before = std::exchange(slots_, Slots(slots));
    for (const Slot& slot : before) {
      if (slot.number != kNone) slots_[slot_of(slot.id)] = slot;
    }
  }

  Slots slots_ = Slots(kLeastSlots);  // a power of two
  std::size_t size_ = 0;
};

}  // namespace sullae::ps
