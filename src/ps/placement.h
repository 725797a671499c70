// Which server holds what.
#pragma once

#include <cstddef>
#include <vector>

namespace sullae::ps {

/// Elements of one tensor.
struct Range {
  std::size_t tensor = 0;
  std::size_t from = 0;
  std::size_t to = 0;

  std::size_t elements() const { return to - from; }
  bool operator==(const Range&) const = default;
};

/// What travels together, and has one clock: a part of a large tensor, or several small ones.
struct Slice {
  int server = 0;
  std::vector<Range> ranges;

  std::size_t elements() const;
  bool operator==(const Slice&) const = default;
};

/// Cuts tensors of these numbers of elements, so that no slice is larger than 4 MB of float32 and
/// every server has some eight of them, and gives each, the largest first, to the server that has
/// least. The same everywhere.
std::vector<Slice> place(const std::vector<std::size_t>& tensors, int servers);

}  // namespace sullae::ps
