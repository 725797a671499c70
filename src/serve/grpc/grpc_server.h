// The gRPC form of the Open Inference Protocol v2: inference.GRPCInferenceService.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "http/access.h"
#include "http/budget.h"
#include "serve/generation/generate.h"
#include "serve/repository/repository.h"

namespace sullae::serve {

struct GrpcServerOptions {
  std::string host = "127.0.0.1";
  /// 0: any that is free.
  std::uint16_t port = 8001;
  std::size_t max_message_bytes = std::size_t{64} << 20;
  std::chrono::milliseconds drain_timeout{30000};
  /// Connections without a call end after it.
  std::chrono::milliseconds idle_timeout{75000};
  /// PEM files; both or none.
  std::string tls_certificate = {};
  std::string tls_key = {};
};

/// Serves from the constructor until shutdown(), with the health and reflection services. Any
/// thread.
class GrpcServer {
 public:
  /// What is given must outlive this object. `budget` is for messages in memory; gRPC itself may
  /// have as much for what is on its way. Throws Error for a port that is taken.
  GrpcServer(const GrpcServerOptions& options, Repository& repository, const http::Access& access,
             http::Budget& budget, Generations& generations);
  ~GrpcServer();

  std::uint16_t port() const;
  /// What the health service (grpc.health.v1) says.
  void set_ready(bool ready);
  /// Takes no more calls, and waits for those that have begun.
  void shutdown();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sullae::serve
