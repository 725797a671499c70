#include <atomic>
#include <mutex>
#include <vector>

#include "ps/server/loop.h"
#include "sullae/ps/server.h"

namespace sullae::ps {
namespace {

constexpr std::chrono::milliseconds kTurn{50};

}  // namespace

class Server::Impl {
 public:
  explicit Impl(const ServerOptions& options) : loop(options) {}

  ServerLoop loop;
  std::atomic<bool> stopping = false;
  std::mutex mutex;
  std::vector<int> ended;  // guarded by mutex
};

Server::Server(const ServerOptions& options) : impl_(std::make_unique<Impl>(options)) {}
Server::~Server() = default;

const std::string& Server::endpoint() const { return impl_->loop.endpoint(); }

void Server::run() {
  while (!impl_->stopping && !impl_->loop.is_over()) {
    impl_->loop.turn(kTurn);
    std::vector<int> ended;
    {
      const std::lock_guard lock(impl_->mutex);
      ended.swap(impl_->ended);
    }
    for (const int worker : ended) impl_->loop.forget(worker);
  }
  impl_->loop.save();
}

void Server::worker_ended(int worker) {
  const std::lock_guard lock(impl_->mutex);
  impl_->ended.push_back(worker);
}

void Server::stop() noexcept { impl_->stopping = true; }

}  // namespace sullae::ps
