// Parameter servers in threads of the test.
#pragma once

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "sullae/ps/server.h"

namespace sullae::testing {

class RunningServer {
 public:
  explicit RunningServer(const ps::ServerOptions& options)
      : server_(options), thread_([this] { server_.run(); }) {}
  ~RunningServer() { server_.stop(); }
  RunningServer(const RunningServer&) = delete;
  RunningServer& operator=(const RunningServer&) = delete;
  const std::string& endpoint() const { return server_.endpoint(); }

 private:
  ps::Server server_;
  std::jthread thread_;
};

class RunningServers {
 public:
  RunningServers(int count, const ps::ServerOptions& options) {
    for (int i = 0; i < count; ++i) {
      servers_.push_back(std::make_unique<RunningServer>(options));
      endpoints_.push_back(servers_.back()->endpoint());
    }
  }
  const std::vector<std::string>& endpoints() const { return endpoints_; }
  /// One dies, and comes back at its place with nothing.
  void restart(std::size_t server, ps::ServerOptions options) {
    options.endpoint = endpoints_[server];
    servers_[server].reset();
    servers_[server] = std::make_unique<RunningServer>(options);
  }

 private:
  std::vector<std::unique_ptr<RunningServer>> servers_;
  std::vector<std::string> endpoints_;
};

}  // namespace sullae::testing
