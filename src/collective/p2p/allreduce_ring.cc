#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <vector>

#include "collective/p2p/p2p.h"

namespace sullae::p2p {
namespace {

// Large enough for the transport's zero-copy protocols, small enough that reducing one segment
// hides behind the next.
constexpr std::size_t kRingSegmentBytes = std::size_t{2048} << 10;

// Parts start at a multiple of this many elements: a cache line of float32.
constexpr std::size_t kGranule = 16;

// One part of the buffer a rank, each cut into segments. All sizes in elements.
class Parts {
 public:
  Parts(std::span<const std::size_t> counts, std::size_t width)
      : offsets_(offsets_of(counts)), segment_(kRingSegmentBytes / width) {}

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
  // Where results of the reduce-scatter go: the allreduce's `out`, which has room for every part,
  // or the reducescatter's, which has room for this rank's part alone.
  enum class Output { whole, own_part };

  Ring(Exchange& exchange, const Reduction& reduction, std::span<const std::size_t> counts,
       Output output)
      : exchange_(exchange),
        reduction_(reduction),
        width_(reduction.width()),
        parts_(counts, width_),
        output_(output),
        size_(exchange.size()),
        right_((exchange.rank() + 1) % size_),
        left_((exchange.rank() + size_ - 1) % size_),
        incoming_(exchange.scratch(kWindow * kRingSegmentBytes)) {
    if (output == Output::whole || size_ == 2) return;
    for (auto& buffer : partial_)
      buffer = std::make_unique_for_overwrite<std::byte[]>(parts_.largest() * width_);
  }

  // Partial sums travel to the right; after P-1 steps this rank holds the sum of part `rank`.
  // `on_segment` is called as each segment of it is finished.
  void reduce_scatter(const std::function<void(std::size_t segment)>& on_segment) {
    for (std::size_t i = 0; i < parts_.segments(left_); ++i) {
      const Range range = parts_.segment(left_, i);
      sends_.push_back(
          exchange_.send(right_, 0, reduction_.in + range.begin * width_, range.size() * width_));
    }
    for (int step = 0; step < size_ - 1; ++step) {
      const bool last = step == size_ - 2;
      const int ranks = step + 1;  // whose sum comes in
      const int part = part_received_in(step);
      std::vector<Request> receives;
      std::vector<Request> next_sends;
      for (std::size_t i = 0; i < parts_.segments(part); ++i) {
        while (receives.size() < std::min(i + kWindow, parts_.segments(part)))
          receives.push_back(expect_partial(step, receives.size()));
        exchange_.wait(receives[i]);
        const Range range = parts_.segment(part, i);
        std::byte* const result = result_at(step, range);
        combine(reduction_, {incoming(i), ranks}, {reduction_.in + range.begin * width_, 1}, result,
                range.size(), size_);
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

  // Segments that are expected at a time. They arrive in order, so a few keep the link busy, and
  // stay in the cache until they are reduced.
  static constexpr std::size_t kWindow = 4;

  int part_received_in(int step) const { return (exchange_.rank() + 2 * size_ - 2 - step) % size_; }

  std::byte* incoming(std::size_t segment) const {
    return incoming_ + segment % kWindow * kRingSegmentBytes;
  }

  Request expect_partial(int step, std::size_t segment) {
    const Range range = parts_.segment(part_received_in(step), segment);
    return exchange_.receive(left_, static_cast<std::uint64_t>(step), incoming(segment),
                             range.size() * width_);
  }

  // In place, a partial sum replaces this rank's own values, which nobody needs any more.
  std::byte* result_at(int step, Range range) const {
    if (output_ == Output::whole) return reduction_.out + range.begin * width_;
    const bool last = step == size_ - 2;
    std::byte* const base = last ? reduction_.out : partial_[step & 1].get();
    return base + (range.begin - parts_.offset(part_received_in(step))) * width_;
  }

  void expect_gathered(int part, std::uint64_t tag, std::size_t segment) {
    const Range range = parts_.segment(part, segment);
    gather_receives_.push_back(exchange_.receive(left_, tag, reduction_.out + range.begin * width_,
                                                 range.size() * width_));
  }

  Exchange& exchange_;
  const Reduction& reduction_;
  std::size_t width_;
  Parts parts_;
  Output output_;
  int size_;
  int right_;
  int left_;
  std::byte* incoming_;
  std::array<std::unique_ptr<std::byte[]>, 2> partial_;
  std::vector<Request> sends_;
  std::vector<Request> gather_sends_;
  std::vector<Request> gather_receives_;
};

}  // namespace

void allreduce_ring(Exchange& exchange, const Signature& signature, const Reduction& reduction) {
  exchange.check_neighbours(signature);
  Ring ring(exchange, reduction, equal_counts(reduction.count, exchange.size(), kGranule),
            Ring::Output::whole);
  ring.reduce_scatter([&](std::size_t segment) { ring.start_gather(segment); });
  ring.all_gather();
}

void reducescatter_ring(Exchange& exchange, const Signature& signature, const Reduction& reduction,
                        std::span<const std::size_t> counts) {
  exchange.check_neighbours(signature);
  Ring ring(exchange, reduction, counts, Ring::Output::own_part);
  ring.reduce_scatter([](std::size_t) {});
}

}  // namespace sullae::p2p
