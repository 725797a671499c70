#include "collective/adasum/adasum.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "base/copy.h"
#include "collective/reduce/reduce.h"

namespace sullae::adasum {
namespace {

class Run {
 public:
  explicit Run(const Part& part)
      : part_(part),
        width_(element_size(part.type)),
        tensor_offsets_(offsets_of(part.tensors)),
        core_(static_cast<int>(std::bit_floor(static_cast<unsigned>(part.peer_count)))),
        extra_(part.peer_count - core_) {
    if (part.peers == nullptr) return;
    const int rank = part.peers->rank();
    folded_ = rank < 2 * extra_ && rank % 2 == 1;
    position_ = rank < 2 * extra_ ? rank / 2 : rank - extra_;
    held_ = {0, part.place.size()};
    other_.resize(held_.size() * width_);
  }

  void all() {
    if (extra_ > 0) fold();
    int groups = core_;
    for (int distance = 1; distance < core_; distance *= 2) {
      groups /= 2;
      halve(distance, groups);
    }
    if (part_.peers != nullptr) gather();
  }

 private:
  int rank_at(int position) const { return position < extra_ ? position * 2 : position + extra_; }

  // The odd ones of the first 2 `extra_` ranks give theirs to the even ones.
  void fold() {
    const bool receives = part_.peers != nullptr && !folded_ && position_ < extra_;
    if (part_.peers != nullptr) {
      const int rank = part_.peers->rank();
      if (folded_) {
        exchange(rank - 1, held_, {});
      } else if (receives) {
        exchange(rank + 1, {}, held_);
      } else {
        exchange(rank, {}, {});
      }
    }
    combine_all(receives, extra_, position_, /*lower=*/true);
  }

  void halve(int distance, int groups) {
    const bool active = part_.peers != nullptr && !folded_;
    const bool lower = (position_ & distance) == 0;
    if (active) {
      const auto [kept, given] = halves(held_, lower);
      exchange(rank_at(position_ ^ distance), given, kept);
      held_ = kept;
    } else if (part_.peers != nullptr) {
      exchange(part_.peers->rank(), {}, {});
    }
    combine_all(active, groups, position_ / (2 * distance), lower);
  }

  static std::pair<Range, Range> halves(const Range& range, bool lower) {
    const std::size_t middle = range.begin + range.size() / 2;
    const Range left{range.begin, middle};
    const Range right{middle, range.end};
    return lower ? std::pair(left, right) : std::pair(right, left);
  }

  // Gives `given` of this rank's values to `peer`, whose `wanted` go to the start of other_.
  void exchange(int peer, const Range& given, const Range& wanted) {
    std::vector<std::size_t> sends(static_cast<std::size_t>(part_.peer_count), 0);
    std::vector<std::size_t> receives = sends;
    sends[static_cast<std::size_t>(peer)] = given.size();
    receives[static_cast<std::size_t>(peer)] = wanted.size();
    part_.peers->alltoall(part_.values + given.begin * width_, sends, other_.data(), receives,
                          part_.type);
  }

  // Combines what this rank holds with what has come, by the products of the whole group, of which
  // there are `groups`. `lower`: this rank's values are the first.
  void combine_all(bool active, int groups, int group, bool lower) {
    const std::size_t tensors = part_.tensors.size();
    std::vector<Dots> all(static_cast<std::size_t>(groups) * tensors);
    const auto own = [&](std::size_t tensor) -> Dots& {
      return all[static_cast<std::size_t>(group) * tensors + tensor];
    };
    const auto each_tensor = [&](const auto& call) {
      for (std::size_t t = 0; active && t < tensors; ++t) {
        const std::size_t begin = std::max(tensor_offsets_[t], part_.place.begin + held_.begin);
        const std::size_t end = std::min(tensor_offsets_[t + 1], part_.place.begin + held_.end);
        if (begin >= end) continue;
        std::byte* const mine = part_.values + (begin - part_.place.begin) * width_;
        std::byte* const theirs =
            other_.data() + (begin - part_.place.begin - held_.begin) * width_;
        call(own(t), lower ? mine : theirs, lower ? theirs : mine, mine, end - begin);
      }
    };
    each_tensor([&](Dots& sum, const std::byte* a, const std::byte* b, std::byte*,
                    std::size_t count) { sum = dots(a, b, count, part_.type); });
    part_.sum({&all.data()->ab, all.size() * 3});
    each_tensor([&](const Dots& sum, const std::byte* a, const std::byte* b, std::byte* out,
                    std::size_t count) { combine(sum, a, b, out, count, part_.type); });
  }

  Range held_by(int position) const {
    Range range{0, part_.place.size()};
    for (int distance = 1; distance < core_; distance *= 2)
      range = halves(range, (position & distance) == 0).first;
    return range;
  }

  void gather() {
    std::vector<std::size_t> counts(static_cast<std::size_t>(part_.peer_count), 0);
    for (int position = 0; position < core_; ++position)
      counts[static_cast<std::size_t>(rank_at(position))] = held_by(position).size();
    const auto offsets = offsets_of(counts);
    if (folded_) held_ = {};
    std::vector<std::byte> gathered(offsets.back() * width_);
    part_.peers->allgather(part_.values + held_.begin * width_, gathered.data(), counts,
                           part_.type);
    for (int position = 0; position < core_; ++position) {
      const Range range = held_by(position);
      copy_bytes(part_.values + range.begin * width_,
                 gathered.data() + offsets[static_cast<std::size_t>(rank_at(position))] * width_,
                 range.size() * width_);
    }
  }

  const Part& part_;
  std::size_t width_;
  std::vector<std::size_t> tensor_offsets_;
  int core_;   // the largest power of two
  int extra_;  // ranks beyond it
  bool folded_ = false;
  int position_ = 0;              // among the core
  Range held_;                    // of the part: what this rank has yet to combine
  std::vector<std::byte> other_;  // what the other rank has sent
};

}  // namespace

static_assert(sizeof(Dots) == 3 * sizeof(double));

void add_up(Communicator& communicator, std::span<double> products) {
  communicator.allreduce(products.data(), products.data(), products.size(), DataType::float64,
                         ReduceOp::sum);
}

void run(const Part& part) { Run(part).all(); }

}  // namespace sullae::adasum

namespace sullae {

void Communicator::adasum(const void* in, void* out, std::span<const std::size_t> tensors,
                          DataType type) {
  reduction::check_supported(type, ReduceOp::adasum);
  const std::size_t count = std::accumulate(tensors.begin(), tensors.end(), std::size_t{0});
  if (in != out) copy_bytes(out, in, count * element_size(type));
  if (size() == 1) return;
  adasum::run({.peers = this,
               .peer_count = size(),
               .values = static_cast<std::byte*>(out),
               .place = {0, count},
               .tensors = tensors,
               .type = type,
               .sum = [this](std::span<double> products) {
                 adasum::add_up(*this, products);
               }});
}

}  // namespace sullae
