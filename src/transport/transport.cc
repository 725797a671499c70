#include "transport/transport.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <thread>
#include <vector>

namespace sullae {

void Transport::fail_peer(int peer, std::string_view reason) {
  broken_ = true;
  throw PeerError(world_rank(peer),
                  fmt::format("rank {} died or left while rank {} waited for it ({})",
                              world_rank(peer), world_rank(rank()), reason));
}

void Transport::fail_timeout(const Request& request, const Deadline& deadline) {
  broken_ = true;
  throw TimeoutError(fmt::format("rank {} waited for rank {}, which did not join {}",
                                 world_rank(rank()), world_rank(request.peer),
                                 deadline.describe()));
}

void Transport::check_world(const Failure& failure) {
  try {
    failure.check();
  } catch (...) {  // whatever ended the world
    broken_ = true;
    throw;
  }
}

void Transport::sleep(std::chrono::microseconds limit) {
  constexpr std::chrono::microseconds kNap{50};
  std::this_thread::sleep_for(std::min(limit, kNap));
}

void Transport::raise_alarm(std::string_view text) {
  std::array<char, kAlarmBytes> message{};
  std::memcpy(message.data(), &alarm_number_, sizeof alarm_number_);
  std::ranges::copy(text.substr(0, kAlarmBytes - sizeof alarm_number_ - 1),
                    message.begin() + sizeof alarm_number_);
  std::vector<Request> sending;
  try {
    for (int peer = 0; peer < size(); ++peer) {
      if (peer != rank()) sending.push_back(send(peer, alarm_tag_, message.data(), message.size()));
    }
    wait(sending);
  } catch (...) {
    abandon();
    throw;
  }
}

void Transport::take_alarm(const std::array<char, kAlarmBytes>& message) const {
  std::uint64_t number = 0;
  std::memcpy(&number, message.data(), sizeof number);
  if (number == alarm_number_) throw Alarm(message.data() + sizeof number);  // which ends with a 0
}

MismatchError Transport::other_length(const Request& request, std::string_view sent) const {
  return MismatchError(fmt::format(
      "rank {} expected {} bytes from rank {}, which sent {}: the ranks called collectives of "
      "different sizes",
      world_rank(rank()), request.bytes, world_rank(request.peer), sent));
}

}  // namespace sullae
