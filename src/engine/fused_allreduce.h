// Many small allreduces as one: tensors are copied into the fusion buffer side by side, reduced
// together, and copied out.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

#include "engine/submission.h"
#include "engine/timeline.h"
#include "sullae/communicator.h"

namespace sullae::engine {

/// One tensor of an allreduce. A rank that has joined has no memory for it, and contributes zeros.
struct Piece {
  TensorBuffers buffers;
  bool joined = false;
  std::string_view name = {};  ///< for the timeline
};

/// What all pieces of one run have in common.
struct Reduction {
  DataType type = DataType::float32;
  ReduceOp op = ReduceOp::sum;
  double prescale = 1.0;
  double postscale = 1.0;
};

/// Used by one thread at a time. Every rank must run the same sizes in the same order.
class FusedAllreduce {
 public:
  /// The fusion buffer, of `threshold` bytes, is made when it is first used.
  FusedAllreduce(Communicator& communicator, Timeline& timeline, std::size_t threshold)
      : communicator_(communicator),
        timeline_(timeline),
        capacity_(threshold),
        threshold_(threshold) {}

  /// Throws what the collectives throw.
  void run(const Reduction& reduction, const std::vector<Piece>& pieces);

  /// At most what the buffer holds.
  void set_threshold(std::size_t bytes) { threshold_ = bytes; }

 private:
  bool fits(const Piece& piece, DataType type) const;
  void run_alone(const Reduction& reduction, const Piece& piece);
  void run_together(const Reduction& reduction, const std::vector<const Piece*>& pieces,
                    std::size_t elements);
  void reduce_buffer(const Reduction& reduction, const std::vector<const Piece*>& pieces,
                     std::size_t elements);
  void copy_in(const Reduction& reduction, const std::vector<const Piece*>& pieces,
               const std::string& name, std::size_t all_bytes);
  void copy_out(const Reduction& reduction, const std::vector<const Piece*>& pieces,
                const std::string& name, std::size_t all_bytes) const;

  Communicator& communicator_;
  Timeline& timeline_;
  std::size_t capacity_;
  std::shared_ptr<std::byte> buffer_;
  std::size_t threshold_;
};

}  // namespace sullae::engine
