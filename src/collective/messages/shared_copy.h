// A large copy from one process's memory into another's, of which both do a part: the receiver
// reads pieces and the sender writes others, until none is left. Two processors move more than one.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace sullae::messages {

/// Lies in the receiver's inbox, for one copy after another. Their turns tell them apart: who comes
/// late claims nothing of the next.
class SharedCopy {
 public:
  static constexpr std::size_t kPiece = std::size_t{256} << 10;

  struct Piece {
    std::size_t offset;
    std::size_t bytes;
  };

  /// The receiver: begins the next copy and returns its turn; nothing while one is under way.
  std::optional<std::uint32_t> begin() {
    const std::uint64_t claimed = claimed_.load();
    if ((claimed & kOpen) != 0) return std::nullopt;
    const std::uint32_t turn = (turn_of(claimed) + 1) % kTurns;
    written_.store(0);
    pieces_written_.store(0);
    lost_.store(false);
    claimed_.store(std::uint64_t{turn} << kTurnShift | kOpen);
    return turn;
  }

  /// Either side: a piece of a copy of `bytes` that is nobody else's; nothing when none is left or
  /// the turn is over.
  std::optional<Piece> claim(std::uint32_t turn, std::size_t bytes) {
    std::uint64_t claimed = claimed_.load();
    for (;;) {
      const std::size_t offset = pieces_of(claimed) * kPiece;
      if (turn_of(claimed) != turn || (claimed & kOpen) == 0 || offset >= bytes)
        return std::nullopt;
      if (claimed_.compare_exchange_weak(claimed, claimed + 1))
        return Piece{offset, std::min(kPiece, bytes - offset)};
    }
  }

  /// The sender, of each piece that it has claimed.
  void wrote(std::size_t bytes) {
    written_.fetch_add(bytes);
    pieces_written_.fetch_add(1);
  }
  void lost() {
    lost_.store(true);
    pieces_written_.fetch_add(1);
  }

  /// The receiver: what the sender has written, and whether it could not write what it had claimed.
  std::size_t written() const { return written_.load(); }
  std::size_t pieces_written() const { return pieces_written_.load(); }
  bool has_lost() const { return lost_.load(); }
  /// The receiver, after a sender that has claimed a piece and does not write it: there is no copy
  /// here any more, since it may still be written.
  void retire() { claimed_.store(kOpen); }
  /// Ends the copy: nothing is claimed any more. Returns the pieces that were, by both.
  std::size_t end() { return pieces_of(claimed_.fetch_and(~kOpen)); }

 private:
  // Turn, whether it goes on, and the pieces claimed.
  static constexpr int kTurnShift = 40;
  static constexpr std::uint64_t kOpen = std::uint64_t{1} << 39;
  static constexpr std::uint32_t kTurns = std::uint32_t{1} << (64 - kTurnShift);
  static std::uint32_t turn_of(std::uint64_t claimed) {
    return static_cast<std::uint32_t>(claimed >> kTurnShift);
  }
  static std::size_t pieces_of(std::uint64_t claimed) { return claimed & (kOpen - 1); }

  std::atomic<std::uint64_t> claimed_{0};
  std::atomic<std::uint64_t> written_{0};         // bytes
  std::atomic<std::uint64_t> pieces_written_{0};  // or lost
  std::atomic<bool> lost_{false};
};

}  // namespace sullae::messages
