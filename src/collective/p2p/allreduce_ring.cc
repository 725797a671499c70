#include <algorithm>
#include <array>
#include <functional>
#include <vector>

#include "collective/p2p/p2p.h"

namespace sullae::p2p {
namespace {

// Large enough for the transport's zero-copy protocols, small enough that reducing one segment
// hides behind the next.
constexpr std::size_t kSegmentBytes = std::size_t{2048} << 10;

// Parts start at a multiple of this many elements: a cache line of float32.
constexpr std::size_t kGranule = 16;

// One part of the buffer a rank, each cut into segments. All sizes in elements.
class Parts {
 public:
  Parts(std::span<const std::size_t> counts, std::size_t width)
      : offsets_(offsets_of(counts)), segment_(kSegmentBytes / width) {}

  std::size_t segments(int part) const { return (size(part) + segment_ - 1) / segment_; }
  Range segment(int part, std::size_t index) const {
    const std::size_t begin = offset(part) + index * segment_;
    return {begin, std::min(begin + segment_, offset(part) + size(part))};
  }
  std::size_t offset(int part) const { return offsets_[static_cast<std::size_t>(part)]; }
  std::size_t size(int part) const {
    return offsets_[static_cast<std::size_t>(part) + 1] - offset(part);
  }
  std::size_t largest() const {
    std::size_t most = 0;
    for (std::size_t i = 0; i + 1 < offsets_.size(); ++i)
      most = std::max(most, offsets_[i + 1] - offsets_[i]);
    return most;
  }

 private:
  std::vector<std::size_t> offsets_;
  std::size_t segment_;
};

class Ring {
 public:
  Ring(Exchange& exchange, const Reduction& reduction, std::span<const std::size_t> counts)
      : exchange_(exchange),
        reduction_(reduction),
        width_(reduction.width()),
        parts_(counts, width_),
        size_(exchange.size()),
        right_((exchange.rank() + 1) % size_),
        left_((exchange.rank() + size_ - 1) % size_) {}

  // Partial sums travel to the right; after P-1 steps this rank holds the sum of part `rank`,
  // written to `into`. `on_segment` is called as each segment of it is finished.
  void reduce_scatter(std::byte* into, const std::function<void(std::size_t segment)>& on_segment) {
    const int rank = exchange_.rank();
    for (auto& buffer : partial_) buffer.resize(size_ > 2 ? parts_.largest() * width_ : 0);
    scratch_.resize(parts_.largest() * width_);
    for (int step = 0; step < size_ - 1; ++step) {
      const int sent_part = (rank + 2 * size_ - 1 - step) % size_;
      const int received_part = (sent_part + size_ - 1) % size_;
      const bool last = step == size_ - 2;
      if (step == 0) {
        for (std::size_t i = 0; i < parts_.segments(sent_part); ++i) {
          const Range range = parts_.segment(sent_part, i);
          sends_.push_back(exchange_.send(right_, 0, reduction_.in + range.begin * width_,
                                          range.size() * width_));
        }
      }
      std::vector<Request> receives;
      for (std::size_t i = 0; i < parts_.segments(received_part); ++i) {
        const Range range = parts_.segment(received_part, i);
        receives.push_back(exchange_.receive(left_, static_cast<std::uint64_t>(step),
                                             scratch_at(received_part, range),
                                             range.size() * width_));
      }
      std::vector<Request> next_sends;
      for (std::size_t i = 0; i < receives.size(); ++i) {
        exchange_.wait(receives[i]);
        const Range range = parts_.segment(received_part, i);
        std::byte* const result =
            last
                ? into + (range.begin - parts_.offset(received_part)) * width_
                : partial_[step & 1].data() + (range.begin - parts_.offset(received_part)) * width_;
        combine(reduction_, scratch_at(received_part, range), reduction_.in + range.begin * width_,
                result, range.size(), last ? Stage::last : Stage::partial, size_);
        if (last) {
          on_segment(i);
        } else {
          next_sends.push_back(exchange_.send(right_, static_cast<std::uint64_t>(step) + 1, result,
                                              range.size() * width_));
        }
      }
      exchange_.wait(sends_);
      sends_ = std::move(next_sends);
    }
  }

  // Finished parts travel to the right. While the last step of the reduce-scatter goes on, a
  // segment of part `rank` is sent as soon as it is finished, and a segment of the left neighbour's
  // part is expected, so that it need not be buffered on arrival.
  void start_gather(std::size_t segment) {
    const Range range = parts_.segment(exchange_.rank(), segment);
    gather_sends_.push_back(exchange_.send(
        right_, kGatherStep, reduction_.out + range.begin * width_, range.size() * width_));
    // In place, with two ranks, the same memory is still being sent from.
    if (segment < sends_.size()) exchange_.wait(sends_[segment]);
    if (segment < parts_.segments(left_)) expect_gathered(left_, kGatherStep, segment);
  }
  void all_gather() {
    const int rank = exchange_.rank();
    std::vector<Request> sends = std::move(gather_sends_);
    for (int step = 0; step < size_ - 1; ++step) {
      const int received_part = (rank + 2 * size_ - 1 - step) % size_;
      const auto tag = kGatherStep + static_cast<std::uint64_t>(step);
      for (std::size_t i = gather_receives_.size(); i < parts_.segments(received_part); ++i) {
        expect_gathered(received_part, tag, i);
      }
      std::vector<Request> receives = std::move(gather_receives_);
      gather_receives_.clear();
      for (std::size_t i = 0; i < receives.size(); ++i) {
        exchange_.wait(receives[i]);
        if (step == size_ - 2) continue;
        const Range range = parts_.segment(received_part, i);
        sends.push_back(exchange_.send(right_, tag + 1, reduction_.out + range.begin * width_,
                                       range.size() * width_));
      }
    }
    exchange_.wait(sends);
  }

 private:
  static constexpr std::uint64_t kGatherStep = 0x4000;

  void expect_gathered(int part, std::uint64_t tag, std::size_t segment) {
    const Range range = parts_.segment(part, segment);
    gather_receives_.push_back(exchange_.receive(left_, tag, reduction_.out + range.begin * width_,
                                                 range.size() * width_));
  }

  std::byte* scratch_at(int part, Range range) {
    return scratch_.data() + (range.begin - parts_.offset(part)) * width_;
  }

  Exchange& exchange_;
  const Reduction& reduction_;
  std::size_t width_;
  Parts parts_;
  int size_;
  int right_;
  int left_;
  std::vector<std::byte> scratch_;
  std::array<std::vector<std::byte>, 2> partial_;
  std::vector<Request> sends_;
  std::vector<Request> gather_sends_;
  std::vector<Request> gather_receives_;
};

}  // namespace

void allreduce_ring(Exchange& exchange, const Signature& signature, const Reduction& reduction) {
  exchange.check_neighbours(signature);
  Ring ring(exchange, reduction, equal_counts(reduction.count, exchange.size(), kGranule));
  const auto own = part_of(reduction.count, exchange.rank(), exchange.size(), kGranule);
  // The parts of `in` that the ring still reads are other ranks' parts, so this rank's part of
  // `out` is free even in place.
  ring.reduce_scatter(reduction.out + own.begin * reduction.width(),
                      [&](std::size_t segment) { ring.start_gather(segment); });
  ring.all_gather();
}

void reducescatter_ring(Exchange& exchange, const Signature& signature, const Reduction& reduction,
                        std::span<const std::size_t> counts) {
  exchange.check_neighbours(signature);
  Ring ring(exchange, reduction, counts);
  ring.reduce_scatter(reduction.out, [](std::size_t) {});
}

}  // namespace sullae::p2p
