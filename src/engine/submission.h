// An operation that this rank has asked for and that is not done yet.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "engine/completion.h"
#include "engine/negotiation/request.h"
#include "sullae/sullae.h"

namespace sullae::engine {

struct Submission {
  Request request;
  /// One, or as many as a grouped operation has.
  std::vector<TensorBuffers> tensors;
  /// Of reducescatter and allgather; of alltoall the counts sent.
  std::vector<std::size_t> counts;
  /// Of alltoall.
  std::vector<std::size_t> receive_counts;
  /// Of an allreduce; null where it travels as it is.
  std::shared_ptr<Compression> compression;
  /// Of a composed operation: its collectives, in order.
  std::function<void(Communicator&)> composed;
  std::shared_ptr<Completion> completion = std::make_shared<Completion>();
  /// When, where the timeline was on.
  std::optional<std::chrono::steady_clock::time_point> submitted;
};

}  // namespace sullae::engine
