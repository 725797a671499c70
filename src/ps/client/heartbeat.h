// Says that a worker lives while it computes.
#pragma once

#include <atomic>
#include <string>
#include <thread>
#include <vector>
#include <zmq.hpp>

#include "ps/packet.h"

namespace sullae::ps {

class Heartbeat {
 public:
  /// `alive` is sent to all servers, every second, until this ends; as of a worker at rest where `rests`.
  Heartbeat(zmq::context_t& context, const std::vector<std::string>& servers, const Header& alive,
            const std::atomic<bool>& rests);

 private:
  std::jthread thread_;
};

}  // namespace sullae::ps
