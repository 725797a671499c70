#include "http/server.h"

#include <fmt/format.h>
#include <malloc.h>

#include "base/host.h"
#include "base/log.h"
#include "http/access.h"
#include "http/origin.h"
#include "repository/remote_model.h"
#include "serve/grpc/grpc_server.h"
#include "serve/repository/repository.h"
#include "serve/rest/rest_api.h"
#include "storage/storage.h"
#include "sullae/serve.h"
#include "torch/blas_threads.h"

namespace sullae {
namespace {

// The C library gives back the end of an arena late, and has 8 arenas a processor: threads of
// versions that come and go would leave memory in each. As many as there are threads that work at
// the same time are enough.
void limit_arenas(int http_threads) {
  constexpr int kOthers = 4;  // loading, samples, gRPC
  ::mallopt(M_ARENA_MAX, http_threads + available_cpus() + kOthers);
}

// Of this host's disk.
std::filesystem::path directory_of(const ServeOptions& options) {
  if (!storage::is_remote(options.repository)) return options.repository;
  return options.repository_copy.empty() ? repository::default_copy(options.repository, "served")
                                         : options.repository_copy;
}

}  // namespace

class InferenceServer::Impl {
 public:
  explicit Impl(const ServeOptions& options)
      : blas_threads_(1),
        access_(options.tokens_file.empty() ? http::Access() : http::Access(options.tokens_file)),
        directory_(directory_of(options)),
        repository_({.directory = directory_,
                     .remote = storage::is_remote(options.repository) ? options.repository : "",
                     .poll = options.poll}),
        stores_(directory_),
        rest_(repository_, stores_, generations_, access_, {options.host, options.allowed_hosts}) {
    if (access_.open() && !http::is_loopback(options.host))
      log::warning(
          "{} can be reached from other machines, and without --tokens-file everybody may "
          "do everything",
          options.host);
    const int http_threads = options.http_threads > 0 ? options.http_threads : available_cpus();
    limit_arenas(http_threads);
    // The ports are taken before models are loaded, which can take long: a mistake shows at once,
    // and health checks are answered.
    try {
      start(options, http_threads);
    } catch (...) {  // requests that have begun to come use all this
      stop();
      repository_.stop();
      throw;
    }
  }
  ~Impl() {
    stop();
    repository_.stop();  // it tells gRPC what it sees
  }

  std::uint16_t http_port() const { return http_->port(); }
  std::uint16_t grpc_port() const { return grpc_->port(); }

  // Both take no more from here on, and have the same time for what has begun.
  bool stop() {
    if (http_) http_->drain();
    if (grpc_) grpc_->shutdown();
    return !http_ || http_->shutdown([this] { generations_.end(); });
  }

 private:
  void start(const ServeOptions& options, int http_threads) {
    http_ = std::make_unique<http::Server>(
        http::ServerOptions{.host = options.host,
                            .port = options.http_port,
                            .port_flag = "--http-port",
                            .threads = http_threads,
                            .max_body_bytes = options.max_body_bytes,
                            .max_inflight_bytes = options.max_inflight_bytes,
                            .max_connections = options.max_connections,
                            .read_timeout = options.read_timeout,
                            .idle_timeout = options.idle_timeout,
                            .drain_timeout = options.drain_timeout,
                            .tls_certificate = options.tls_certificate,
                            .tls_key = options.tls_key},
        rest_);
    grpc_ = std::make_unique<serve::GrpcServer>(
        serve::GrpcServerOptions{.host = options.host == "localhost" ? "127.0.0.1" : options.host,
                                 .port = options.grpc_port,
                                 .max_message_bytes = options.max_body_bytes,
                                 .drain_timeout = options.drain_timeout,
                                 .idle_timeout = options.idle_timeout,
                                 .tls_certificate = options.tls_certificate,
                                 .tls_key = options.tls_key},
        repository_, access_, http_->budget(), generations_);
    repository_.on_look([this] { grpc_->set_ready(repository_.ready()); });
    repository_.start();
  }

  BlasThreads blas_threads_;
  http::Access access_;
  // Before all that may still answer a request, and so destroyed after it.
  std::unique_ptr<http::Server> http_;
  std::filesystem::path directory_;
  serve::Repository repository_;
  online::ModelStores stores_;
  serve::Generations generations_;
  serve::RestApi rest_;
  std::unique_ptr<serve::GrpcServer> grpc_;
};

InferenceServer::InferenceServer(const ServeOptions& options)
    : impl_(std::make_unique<Impl>(options)) {}
InferenceServer::~InferenceServer() = default;
std::uint16_t InferenceServer::http_port() const { return impl_->http_port(); }
std::uint16_t InferenceServer::grpc_port() const { return impl_->grpc_port(); }
bool InferenceServer::stop() { return impl_->stop(); }

}  // namespace sullae
