#include <atomic>

#include "ps/server.h"
#include "sullae/ps.h"

namespace sullae::ps {
namespace {

constexpr std::chrono::milliseconds kTurn{50};

}  // namespace

class Server::Impl {
 public:
  explicit Impl(const ServerOptions& options) : loop(options) {}

  ServerLoop loop;
  std::atomic<bool> stopping = false;
};

Server::Server(const ServerOptions& options) : impl_(std::make_unique<Impl>(options)) {}
Server::~Server() = default;

const std::string& Server::endpoint() const { return impl_->loop.endpoint(); }

void Server::run() {
  while (!impl_->stopping) impl_->loop.turn(kTurn);
}

void Server::stop() noexcept { impl_->stopping = true; }

}  // namespace sullae::ps
