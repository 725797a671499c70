#include "ps/client/heartbeat.h"

#include <pthread.h>

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "ps/client/connect.h"

namespace sullae::ps {
namespace {

constexpr std::chrono::seconds kPeriod{1};
// Of those that nobody takes.
constexpr int kMostQueued = 2;

}  // namespace

Heartbeat::Heartbeat(zmq::context_t& context, const std::vector<std::string>& servers,
                     const Header& alive, const std::atomic<bool>& rests,
                     const std::atomic<std::int64_t>& step) {
  std::vector<zmq::socket_t> sockets;
  for (const std::string& server : servers)
    sockets.push_back(connect(context, server, kMostQueued));
  thread_ = std::jthread([sockets = std::move(sockets), said = alive, &rests,
                          &step](const std::stop_token& stop) mutable {
    ::pthread_setname_np(::pthread_self(), "sullae-alive");
    std::mutex mutex;
    std::condition_variable_any ended;
    std::unique_lock lock(mutex);
    while (!ended.wait_for(lock, stop, kPeriod, [&] { return stop.stop_requested(); })) {
      said.kind = rests ? Kind::alive_at_rest : Kind::alive;
      said.step = step;
      for (auto& socket : sockets) socket.send(message_of(said), zmq::send_flags::dontwait);
    }
  });
}

}  // namespace sullae::ps
