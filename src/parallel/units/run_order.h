// In which order units run, learned in one step for the next.
#pragma once

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

namespace sullae {

class RunOrder {
 public:
  /// `unit` runs now, forward or backward.
  void runs(std::size_t unit) { now_.push_back(unit); }
  /// What will run after that; nothing where that is not known.
  std::optional<std::size_t> next() const {
    const std::size_t at = now_.size();
    if (now_.empty() || at >= before_.size() || before_[at - 1] != now_.back()) return std::nullopt;
    return before_[at];
  }
  void step_ended() { before_ = std::exchange(now_, {}); }

 private:
  std::vector<std::size_t> before_;
  std::vector<std::size_t> now_;
};

}  // namespace sullae
