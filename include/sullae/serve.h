// Serving trained models over HTTP and gRPC, from within a program of your own. `sullae serve` is
// this with flags.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "sullae/sullae.h"

namespace sullae {

struct ServeOptions {
  /// The model repository: `MODEL/config.toml`, and `MODEL/VERSION/` with model.ckpt (a checkpoint
  /// of Sullae), model.pt (TorchScript) or model.pt2 (AOTInductor). In a store
  /// ("s3://bucket/models", "webhdfs://host:port/models") it is copied, and looked at for changes.
  std::filesystem::path repository;
  /// Where one of a store is copied to; empty: a folder of $XDG_CACHE_HOME, or ~/.cache.
  std::filesystem::path repository_copy = {};
  /// The address to listen at; loopback by default.
  std::string host = "127.0.0.1";
  /// 0: any port that is free.
  std::uint16_t http_port = 8000;
  std::uint16_t grpc_port = 8001;
  /// Threads that read requests and write answers; 0: one a processor.
  int http_threads = 0;
  std::size_t max_body_bytes = std::size_t{64} << 20;
  /// Of all HTTP requests that are being read or answered, with what their JSON becomes: what does
  /// not fit is refused (503), or, where it never could, 413.
  std::size_t max_inflight_bytes = std::size_t{512} << 20;
  /// Fewer where the process may not have so many descriptors (ulimit -n).
  std::size_t max_connections = 10000;
  /// Without tokens, requests must name this machine in their header Host: by an address, as
  /// localhost, by its name, by `host`, or by one of these. Pages of other sites may not send
  /// requests.
  std::vector<std::string> allowed_hosts = {};
  /// Between looks at the repository; at one in a store each takes a few requests a model.
  std::chrono::milliseconds poll{1000};
  /// How long a client may take to send a request, and a connection may stay open between two.
  std::chrono::milliseconds read_timeout{30000};
  std::chrono::milliseconds idle_timeout{75000};
  /// How long stop() waits for requests that are being answered.
  std::chrono::milliseconds drain_timeout{30000};
  /// A TOML file of bearer tokens with roles; empty lets everybody do everything.
  std::filesystem::path tokens_file = {};
  /// PEM files; both or none.
  std::string tls_certificate = {};
  std::string tls_key = {};
};

/// Serves from the constructor, which returns when every model that can be loaded is, until stop()
/// or the destructor. Any thread may call it. A process has one: it sets the threads of libtorch.
class InferenceServer {
 public:
  /// Throws InputError for options that cannot be, and Error for ports that are taken.
  explicit InferenceServer(const ServeOptions& options);
  ~InferenceServer();
  InferenceServer(const InferenceServer&) = delete;
  InferenceServer& operator=(const InferenceServer&) = delete;

  std::uint16_t http_port() const;
  std::uint16_t grpc_port() const;
  /// Takes no more requests, answers those that have begun, and ends. False where some were not
  /// answered within drain_timeout: the destructor waits until they are computed.
  bool stop();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sullae
