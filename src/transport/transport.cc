#include "transport/transport.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <exception>
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

void Transport::raise_alarm(std::string_view text, std::optional<int> failed_rank) {
  std::array<char, kAlarmBytes> message{};
  const AlarmHead head{.number = alarm_number_, .rank = failed_rank.value_or(-1)};
  std::memcpy(message.data(), &head, sizeof head);
  std::ranges::copy(text.substr(0, kAlarmBytes - sizeof head - 1), message.begin() + sizeof head);
  std::exception_ptr problem;
  const auto attempt = [&](const auto& step) {
    try {
      step();
    } catch (...) {  // of one that is gone itself, or whatever has ended the world
      problem = std::current_exception();
    }
  };
  std::vector<Request> sending;
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank() || gone(peer)) continue;
    attempt([&] { sending.push_back(send(peer, alarm_tag_, message.data(), message.size())); });
  }
  for (Request& request : sending) attempt([&] { wait(request); });
  if (!problem) return;
  abandon();
  std::rethrow_exception(problem);
}

void Transport::take_alarm(const std::array<char, kAlarmBytes>& message) const {
  AlarmHead head;
  std::memcpy(&head, message.data(), sizeof head);
  if (head.number != alarm_number_) return;
  const char* const text = message.data() + sizeof head;  // which ends with a 0
  if (head.rank < 0) throw Alarm(text);
  throw PeerError(static_cast<int>(head.rank), text);
}

MismatchError Transport::other_length(const Request& request, std::string_view sent) const {
  return MismatchError(fmt::format(
      "rank {} expected {} bytes from rank {}, which sent {}: the ranks called collectives of "
      "different sizes",
      world_rank(rank()), request.bytes, world_rank(request.peer), sent));
}

}  // namespace sullae
