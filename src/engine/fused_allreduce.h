// Many small allreduces as one: tensors are copied into the fusion buffer side by side, reduced
// together, and copied out.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "engine/submission.h"
#include "sullae/communicator.h"

namespace sullae::engine {

/// One tensor of an allreduce. A rank that has joined has no memory for it, and contributes zeros.
struct Piece {
  TensorBuffers buffers;
  bool joined = false;
};

/// What all pieces of one run have in common.
struct Reduction {
  DataType type = DataType::float32;
  ReduceOp op = ReduceOp::sum;
  double prescale = 1.0;
  double postscale = 1.0;
};

/// Used by one thread. Every rank must run the same sizes in the same order.
class FusedAllreduce {
 public:
  /// `buffer` is the fusion buffer, in which allreduce is fastest, of `threshold` bytes.
  FusedAllreduce(Communicator& communicator, std::shared_ptr<std::byte> buffer,
                 std::size_t threshold)
      : communicator_(communicator), buffer_(std::move(buffer)), threshold_(threshold) {}

  /// Throws what the collectives throw.
  void run(const Reduction& reduction, const std::vector<Piece>& pieces);

 private:
  bool fits(const Piece& piece, DataType type) const;
  void run_alone(const Reduction& reduction, const Piece& piece);
  void run_together(const Reduction& reduction, const std::vector<const Piece*>& pieces,
                    std::size_t elements);

  Communicator& communicator_;
  std::shared_ptr<std::byte> buffer_;
  std::size_t threshold_;
};

}  // namespace sullae::engine
