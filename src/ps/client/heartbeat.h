// Says that a worker lives while it computes.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>
#include <zmq.hpp>

#include "ps/packet.h"

namespace sullae::ps {

class Heartbeat {
 public:
  /// `alive` is sent to all servers, every second, until this ends, with the `step` that the worker
  /// is at; as of a worker at rest where `rests`.
  Heartbeat(zmq::context_t& context, const std::vector<std::string>& servers, const Header& alive,
            const std::atomic<bool>& rests, const std::atomic<std::int64_t>& step);

 private:
  std::jthread thread_;
};

}  // namespace sullae::ps
