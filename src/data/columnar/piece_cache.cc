#include "data/columnar/piece_cache.h"

#include <fmt/format.h>

#include "base/log.h"

namespace sullae::data {

std::shared_ptr<const void> PieceCache::get(std::uint64_t file, std::size_t number,
                                            const std::string& name,
                                            const std::function<Piece()>& decode) {
  const Key key{file, number};
  std::shared_ptr<Slot> slot;
  {
    const std::lock_guard lock(mutex_);
    ++asked_;
    auto& found = slots_[key];
    if (!found) {
      found = std::make_shared<Slot>();
      found->place = used_.end();
    } else if (found->piece.content != nullptr) {
      used_.splice(used_.begin(), used_, found->place);
      return found->piece.content;
    }
    slot = found;
  }
  const std::lock_guard decoding(slot->decoding);
  {
    const std::lock_guard lock(mutex_);
    if (slot->piece.content != nullptr) return slot->piece.content;
  }
  Piece piece = decode();
  const std::lock_guard lock(mutex_);
  slot->piece = piece;
  keep(key, slot, name);
  return piece.content;
}

// At least the one that is used.
void PieceCache::keep(const Key& key, const std::shared_ptr<Slot>& slot, const std::string& name) {
  slots_[key] = slot;
  used_.push_front(key);
  slot->place = used_.begin();
  bytes_ += slot->piece.bytes;
  ++decoded_;
  if (!known_.insert(key).second) ++again_;
  while (bytes_ > max_bytes_ && used_.size() > 1) {
    const auto last = slots_.find(used_.back());
    bytes_ -= last->second->piece.bytes;
    slots_.erase(last);
    used_.pop_back();
  }
  // At random a piece is decoded for a few rows, and dropped again.
  constexpr std::size_t kMany = 16;
  if (!warned_ && again_ > kMany && asked_ < kMany * decoded_) {
    warned_ = true;
    log::warning(
        "{}: is read in random order, and what is decoded of its pieces is more than the {} MB "
        "that are kept: "
        "shuffle within a buffer (--shuffle-buffer), or convert it to tfrecord",
        name, max_bytes_ >> 20);
  }
}

}  // namespace sullae::data
